package launch

import "errors"

// refuseRoot says what root is to do instead of starting an engine.
func refuseRoot(uid int, env Env) error {
	if uid != 0 {
		return nil
	}
	if name := env("SUDO_USER"); name != "" && name != "root" {
		return errors.New("moss has no engine for root: run this as " + name + ", without sudo")
	}
	return errors.New("moss has no engine for root: run this as an ordinary user. 'useradd --create-home NAME' makes one, and " +
		"'su --login NAME' is a shell of theirs; --host names an engine that runs already")
}

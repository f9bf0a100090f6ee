package main

import "strings"

// unknown stands in a word's text for a piece that only a run could tell.
const unknown = "\x00"

// word is one word of a command as its source has it.
type word struct {
	text  string // with unknown in it
	param string // the whole word is this parameter: "@", "1" and so on, or the name of a variable
}

func (w word) isLiteral() bool { return w.param == "" && !strings.Contains(w.text, unknown) }

func literalWords(texts ...string) []word {
	words := make([]word, len(texts))
	for i, text := range texts {
		words[i].text = text
	}
	return words
}

// wrapper is a program that calls another one, whose name is among its own words.
type wrapper struct {
	separate    string // options that have their value in the next word
	positionals int    // words in front of the command
	assigns     bool   // and VAR=VALUE
	script      string // the option whose value is a script of the shell; the words behind that are its parameters
	after       string // the command begins behind one of these words only
}

// wrapperOf knows the usual ones. chroot and ssh are none: what they call is elsewhere.
func wrapperOf(name string) (wrapper, bool) {
	switch name {
	case "timeout":
		return wrapper{separate: "-k -s --kill-after --signal", positionals: 1}, true
	case "env":
		return wrapper{separate: "-u -C --unset --chdir", assigns: true}, true
	case "nice", "ionice":
		return wrapper{separate: "-n -c -p"}, true
	case "xargs":
		return wrapper{separate: "-n -P -I -L -d -a -E -s"}, true
	case "exec":
		return wrapper{separate: "-a"}, true
	case "unshare":
		return wrapper{separate: "-R -w -S -G --root --wd --setuid --setgid --propagation --map-users --map-groups"}, true
	case "nsenter":
		return wrapper{separate: "-t -S -G --target --setuid --setgid"}, true
	case "setpriv":
		return wrapper{separate: "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --bounding-set --ambient-caps"}, true
	case "setsid", "nohup", "time", "builtin", "command", "stdbuf", "run":
		return wrapper{}, true
	case "sudo":
		return wrapper{separate: "-u -g -C -D", assigns: true}, true
	case "systemd-run":
		return wrapper{separate: "-p -u -E --unit --property --slice --setenv"}, true
	case "flock":
		return wrapper{separate: "-w -E", positionals: 1}, true
	case "sh", "bash", "dash", "script", "su":
		return wrapper{separate: "-o -O -eo -uo -euo", script: "-c"}, true
	case "find":
		return wrapper{after: "-exec -execdir -ok"}, true
	default:
		return wrapper{}, false
	}
}

// splitArgs parts the words behind a wrapper's name: the command that it calls, or a script and its parameters.
func (w wrapper) splitArgs(args []word) (command []word, script *word, params []word) {
	if w.after != "" {
		for i, arg := range args {
			if hasWord(w.after, arg.text) {
				return args[i+1:], nil, nil
			}
		}
		return nil, nil, nil
	}
	left := w.positionals
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg.param == "" && w.script != "" && isShort(arg.text) && strings.HasSuffix(arg.text, "c"):
			if i+1 < len(args) {
				return nil, &args[i+1], args[min(i+2, len(args)):]
			}
			return nil, nil, nil
		case arg.param == "" && hasWord(w.separate, arg.text):
			i++
		case arg.param == "" && (strings.HasPrefix(arg.text, "-") || arg.text == "!"):
		case arg.param == "" && w.assigns && strings.Contains(arg.text, "="):
		case left > 0:
			left--
		case w.script != "":
			return nil, nil, nil // a file with a script, which is a source itself
		default:
			return args[i:], nil, nil
		}
	}
	return nil, nil, nil
}

// isShort tells whether the word is a group of one-letter options.
func isShort(text string) bool { return len(text) > 1 && text[0] == '-' && text[1] != '-' }

// hasWord tells whether one of the words of a list is that one.
func hasWord(list, one string) bool {
	for word := range strings.FieldsSeq(list) {
		if word == one {
			return true
		}
	}
	return false
}

// builtins are the shell's own commands, and those of bats.
const builtins = ` . : [ alias bg bind break caller cd compgen complete continue declare dirs disown echo enable export false fc fg
 getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift
 shopt source suspend test times trap true type typeset ulimit umask unalias unset wait exit eval
 load skip bats_require_minimum_version bats_load_library `

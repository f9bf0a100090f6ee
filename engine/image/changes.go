package image

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// maxChange bounds one instruction, in bytes.
const maxChange = 64 << 10

// Apply changes the config as build instructions say, the way import and commit take them: CMD, ENTRYPOINT, ENV, EXPOSE,
// LABEL, USER, VOLUME, WORKDIR, STOPSIGNAL, ONBUILD, HEALTHCHECK and SHELL (API document 2, 4.2: commit, changes). It
// returns the new config and leaves c alone. Errors are fault.Invalid and name the instruction.
func (c Config) Apply(changes []string) (Config, error) {
	e := editor{c: c.clone()}
	for _, change := range changes {
		for line := range strings.Lines(change) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if len(line) > maxChange {
				return Config{}, fault.Invalid("a change has %d bytes, more than %d", len(line), maxChange)
			}
			if !utf8.ValidString(line) || strings.Contains(line, "\x00") {
				return Config{}, fault.Invalid("a change is not text: %q", line)
			}
			if err := e.apply(line); err != nil {
				return Config{}, err
			}
		}
	}
	return e.c, nil
}

func (c Config) clone() Config {
	c.ExposedPorts, c.Volumes, c.Labels = maps.Clone(c.ExposedPorts), maps.Clone(c.Volumes), maps.Clone(c.Labels)
	c.Env, c.Entrypoint, c.Cmd = slices.Clone(c.Env), slices.Clone(c.Entrypoint), slices.Clone(c.Cmd)
	c.OnBuild, c.Shell = slices.Clone(c.OnBuild), slices.Clone(c.Shell)
	if c.Healthcheck != nil {
		h := *c.Healthcheck
		c.Healthcheck = &h
	}
	return c
}

// editor applies instructions one after the other.
type editor struct {
	c      Config
	cmdSet bool // a CMD came already: ENTRYPOINT leaves it alone
}

func (e *editor) apply(line string) error {
	at := strings.IndexAny(line, " \t")
	if at < 0 {
		at = len(line)
	}
	word, args := strings.ToUpper(line[:at]), strings.TrimSpace(line[at:])
	do, ok := map[string]func(string) error{
		"CMD": e.cmd, "ENTRYPOINT": e.entrypoint, "ENV": e.env, "EXPOSE": e.expose, "LABEL": e.label, "USER": e.user,
		"VOLUME": e.volume, "WORKDIR": e.workdir, "STOPSIGNAL": e.stopSignal, "ONBUILD": e.onBuild,
		"HEALTHCHECK": e.healthcheck, "SHELL": e.shell,
	}[word]
	if !ok {
		return fault.Invalid("%s is not a valid change command", word)
	}
	if args == "" && word != "CMD" && word != "ENTRYPOINT" {
		return fault.Invalid("%s requires at least one argument", word)
	}
	if err := do(args); err != nil {
		return fault.Invalid("%s: %w", word, err)
	}
	return nil
}

// command reads the two forms of a command: a JSON array, or a line for the shell.
func (e *editor) command(args string) []string {
	if words, ok := jsonWords(args); ok {
		return words
	}
	if args == "" {
		return nil
	}
	shell := e.c.Shell
	if len(shell) == 0 {
		shell = []string{"/bin/sh", "-c"}
	}
	return append(slices.Clone(shell), args)
}

func (e *editor) cmd(args string) error {
	e.c.Cmd, e.cmdSet = e.command(args), true
	return nil
}

func (e *editor) entrypoint(args string) error {
	e.c.Entrypoint = e.command(args)
	if !e.cmdSet {
		e.c.Cmd = nil // it was meant for the entry point before
	}
	return nil
}

// expand puts variables of the image's environment into a word and takes its quotes off.
func (e *editor) expand(word string) (string, error) {
	return expander{func(name string) (string, bool) {
		for _, entry := range slices.Backward(e.c.Env) {
			if key, value, ok := strings.Cut(entry, "="); ok && key == name {
				return value, true
			}
		}
		return "", false
	}}.word(word)
}

// pairs reads "key=value …" or "key value" with quotes and variables.
func (e *editor) pairs(args string) ([][2]string, error) {
	words := splitWords(args)
	if !strings.Contains(words[0], "=") {
		if len(words) < 2 {
			return nil, fault.Invalid("%q has no value", words[0])
		}
		key, err := e.expand(words[0])
		if err != nil {
			return nil, err
		}
		if key == "" {
			return nil, fault.Invalid("a name is empty")
		}
		value, err := e.expand(strings.TrimSpace(args[len(words[0]):]))
		return [][2]string{{key, value}}, err
	}
	found := make([][2]string, 0, len(words))
	for _, word := range words {
		left, right, ok := strings.Cut(word, "=")
		if !ok {
			return nil, fault.Invalid("%q must be of the form name=value", word)
		}
		key, err := e.expand(left)
		if err != nil {
			return nil, err
		}
		if key == "" {
			return nil, fault.Invalid("a name is empty")
		}
		value, err := e.expand(right)
		if err != nil {
			return nil, err
		}
		found = append(found, [2]string{key, value})
	}
	return found, nil
}

func (e *editor) env(args string) error {
	found, err := e.pairs(args)
	if err != nil {
		return err
	}
	for _, p := range found {
		if strings.Contains(p[0], "=") {
			return fault.Invalid("%q cannot be a variable", p[0])
		}
		entry := p[0] + "=" + p[1]
		at := slices.IndexFunc(e.c.Env, func(old string) bool { return strings.HasPrefix(old, p[0]+"=") })
		if at >= 0 {
			e.c.Env[at] = entry
		} else {
			e.c.Env = append(e.c.Env, entry)
		}
	}
	return nil
}

func (e *editor) label(args string) error {
	found, err := e.pairs(args)
	if err != nil {
		return err
	}
	if e.c.Labels == nil {
		e.c.Labels = map[string]string{}
	}
	for _, p := range found {
		e.c.Labels[p[0]] = p[1]
	}
	return nil
}

func (e *editor) expose(args string) error {
	if e.c.ExposedPorts == nil {
		e.c.ExposedPorts = map[string]struct{}{}
	}
	for _, word := range splitWords(args) {
		word, err := e.expand(word)
		if err != nil {
			return err
		}
		ports, err := portRange(word)
		if err != nil {
			return err
		}
		for _, port := range ports {
			e.c.ExposedPorts[port] = struct{}{}
		}
	}
	return nil
}

// portRange reads port[-port][/proto]; only what a container listens on counts, so no host side is taken.
func portRange(s string) ([]string, error) {
	numbers, proto, named := strings.Cut(s, "/")
	if !named {
		proto = "tcp"
	}
	proto = strings.ToLower(proto)
	if proto != "tcp" && proto != "udp" && proto != "sctp" {
		return nil, fault.Invalid("invalid proto: %q in %q", proto, s)
	}
	low, high, isRange := strings.Cut(numbers, "-")
	if !isRange {
		high = low
	}
	first, err1 := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	if err1 != nil || err2 != nil || first == 0 || last < first {
		return nil, fault.Invalid("invalid containerPort: %q", s)
	}
	ports := make([]string, 0, last-first+1)
	for port := first; port <= last; port++ {
		ports = append(ports, strconv.FormatUint(port, 10)+"/"+proto)
	}
	return ports, nil
}

func (e *editor) user(args string) error {
	user, err := e.expand(args)
	if err != nil {
		return err
	}
	if len(strings.Fields(user)) != 1 {
		return fault.Invalid("requires exactly one argument")
	}
	e.c.User = user
	return nil
}

func (e *editor) workdir(args string) error {
	dir, err := e.expand(args)
	if err != nil {
		return err
	}
	if dir == "" {
		return fault.Invalid("%q cannot be a folder", dir)
	}
	if !path.IsAbs(dir) {
		dir = path.Join("/", e.c.WorkingDir, dir)
	}
	e.c.WorkingDir = path.Clean(dir)
	return nil
}

func (e *editor) volume(args string) error {
	words, ok := jsonWords(args)
	if !ok {
		words = splitWords(args)
	}
	if e.c.Volumes == nil {
		e.c.Volumes = map[string]struct{}{}
	}
	for _, word := range words {
		if !ok {
			var err error
			if word, err = e.expand(word); err != nil {
				return err
			}
		}
		if word = strings.TrimSpace(word); word == "" {
			return fault.Invalid("a volume's path is empty")
		}
		e.c.Volumes[word] = struct{}{}
	}
	return nil
}

// realTime is the name of a real-time signal, which the kernel's table does not have.
var realTime = regexp.MustCompile(`^(RTMIN(\+([0-9]|[12][0-9]|30))?|RTMAX(-([0-9]|[12][0-9]|30))?)$`) //nolint:gochecknoglobals // a constant

func (e *editor) stopSignal(args string) error {
	signal, err := e.expand(args)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(signal)
	name := strings.TrimPrefix(strings.ToUpper(signal), "SIG")
	isName := unix.SignalNum("SIG"+name) != 0 || slices.Contains([]string{"IOT", "POLL", "CLD"}, name) || realTime.MatchString(name)
	if (err != nil || number < 1 || number > 64) && !isName {
		return fault.Invalid("invalid signal: %s", signal)
	}
	e.c.StopSignal = signal
	return nil
}

func (e *editor) onBuild(args string) error {
	word, _, _ := strings.Cut(args, " ")
	switch strings.ToUpper(word) {
	case "ONBUILD":
		return fault.Invalid("chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed")
	case "FROM", "MAINTAINER":
		return fault.Invalid("%s isn't allowed as an ONBUILD trigger", strings.ToUpper(word))
	}
	e.c.OnBuild = append(e.c.OnBuild, args)
	return nil
}

func (e *editor) shell(args string) error {
	words, ok := jsonWords(args)
	if !ok || len(words) == 0 {
		return fault.Invalid("requires the arguments to be in JSON form")
	}
	e.c.Shell = words
	return nil
}

func (e *editor) healthcheck(args string) error {
	h := Healthcheck{}
	rest := args
	for strings.HasPrefix(rest, "--") {
		option, after, _ := strings.Cut(rest, " ")
		if err := h.option(option); err != nil {
			return err
		}
		rest = strings.TrimSpace(after)
	}
	word, command, _ := strings.Cut(rest, " ")
	command = strings.TrimSpace(command)
	switch strings.ToUpper(word) {
	case "NONE":
		if command != "" || rest != args {
			return fault.Invalid("NONE takes no arguments")
		}
		h.Test = []string{"NONE"}
	case "CMD":
		words, ok := jsonWords(command)
		switch {
		case ok && len(words) > 0:
			h.Test = append([]string{"CMD"}, words...)
		case !ok && command != "":
			h.Test = []string{"CMD-SHELL", command}
		default:
			return fault.Invalid("missing command after HEALTHCHECK CMD")
		}
	default:
		return fault.Invalid("unknown type %q, try CMD", word)
	}
	e.c.Healthcheck = &h
	return nil
}

// option reads one --name=value of a health check.
func (h *Healthcheck) option(text string) error {
	name, value, _ := strings.Cut(text, "=")
	if name == "--retries" {
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return fault.Invalid("--retries: %q is not a number of retries", value)
		}
		h.Retries = int(n)
		return nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || (d > 0 && d < time.Millisecond) {
		return fault.Invalid("%s: %q is not a duration of at least 1ms", name, value)
	}
	switch name {
	case "--interval":
		h.Interval = d
	case "--timeout":
		h.Timeout = d
	case "--start-period":
		h.StartPeriod = d
	default:
		return fault.Invalid("unknown flag: %s", name)
	}
	return nil
}

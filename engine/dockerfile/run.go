package dockerfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"moss/engine/fault"
)

// scriptDir is where scripts of a Dockerfile are while they run, as BuildKit has it.
const scriptDir = "/dev/pipes"

// Run is a RUN that is ready to be carried out.
type Run struct {
	Args    []string  // the command, with its shell
	Files   []RunFile // to be there while it runs
	Mounts  []*instructions.Mount
	Network string   // default or none
	Flags   string   // --mount and --network as the history has them; may be empty
	Notes   []string // what is left out, for the one who builds
}

// RunFile is a script that stands in the Dockerfile. It is to be executable, and read only.
type RunFile struct {
	Path    string // absolute
	Content string
}

func (f RunFile) contentDigest() string {
	sum := sha256.Sum256([]byte(f.Content))
	return "file:" + hex.EncodeToString(sum[:])
}

// Run returns what a RUN is to do, with the shell of the config. Variables are expanded already. Mounts of type ssh that
// are not required are left out. Errors are fault.Invalid, or fault.Unsupported for what moss does not do: --device,
// --security=insecure, --network=host, a required --mount=type=ssh.
func (s State) Run(cmd *instructions.RunCommand) (Run, error) {
	if err := carriedOut(cmd); err != nil {
		return Run{}, fault.Unsupported("%w", err)
	}
	r := Run{Network: instructions.GetNetwork(cmd)}
	var flags []string
	for _, mount := range instructions.GetMounts(cmd) {
		if mount.Type == instructions.MountTypeSSH {
			if mount.Required {
				return Run{}, fault.Unsupported("RUN --mount=type=ssh is not supported: the protocol has no way to a client's agent")
			}
			r.Notes = append(r.Notes, "RUN --mount=type=ssh is left out: the protocol has no way to a client's agent")
			continue
		}
		r.Mounts = append(r.Mounts, mount)
		flags = append(flags, describeMount(mount))
	}
	if r.Network != instructions.NetworkDefault {
		flags = append(flags, "--network="+r.Network)
	}
	r.Flags = strings.Join(flags, " ")
	line, err := r.inlineHeredocs(cmd)
	if err != nil {
		return Run{}, err
	}
	for _, text := range line {
		if !isText(text) {
			return Run{}, fault.Invalid("RUN: the command is not text")
		}
	}
	if len(line) == 0 || line[0] == "" && !cmd.PrependShell {
		return Run{}, fault.Invalid("RUN: no command specified")
	}
	if cmd.PrependShell && len(r.Files) == 0 {
		line = append(shellOf(s.Config.Shell), strings.Join(line, " "))
	}
	r.Args = line
	return r, nil
}

// inlineHeredocs returns the words of the command with its heredocs put in. A single one that begins with "#!" becomes a file.
func (r *Run) inlineHeredocs(cmd *instructions.RunCommand) ([]string, error) {
	if len(cmd.Files) == 0 {
		return slices.Clone(cmd.CmdLine), nil
	}
	if len(cmd.CmdLine) != 1 || !cmd.PrependShell {
		return nil, fault.Invalid("RUN: parsing produced an invalid run command: %v", cmd.CmdLine)
	}
	first := cmd.Files[0]
	if parser.MustParseHeredoc(cmd.CmdLine[0]) == nil {
		var text strings.Builder // for the shell to make sense of
		text.WriteString(cmd.CmdLine[0])
		for _, file := range cmd.Files {
			text.WriteString("\n" + file.Data + file.Name)
		}
		return []string{text.String()}, nil
	}
	data := first.Data
	if first.Chomp {
		data = parser.ChompHeredocContent(data)
	}
	if !strings.HasPrefix(data, "#!") {
		return []string{data}, nil
	}
	if path.Base(first.Name) != first.Name || first.Name == "." || first.Name == ".." {
		return nil, fault.Invalid("RUN: %q cannot be the name of a script", first.Name)
	}
	r.Files = []RunFile{{Path: path.Join(scriptDir, first.Name), Content: data}}
	return []string{r.Files[0].Path}, nil
}

// carriedOut returns what of an instruction moss does not carry out, wherever it stands.
func carriedOut(cmd instructions.Command) error {
	run, ok := cmd.(*instructions.RunCommand)
	if !ok {
		return nil
	}
	if devices := instructions.GetDevices(run); len(devices) > 0 {
		return fmt.Errorf("RUN --device=%s is not supported: a build has no devices of the host", devices[0].Name)
	}
	if instructions.GetSecurity(run) == instructions.SecurityInsecure {
		return fmt.Errorf("RUN --security=%s is not supported: a build has no more rights than other containers",
			instructions.SecurityInsecure)
	}
	if instructions.GetNetwork(run) == instructions.NetworkHost {
		return fmt.Errorf("RUN --network=%s is not supported: a build never runs in the host's network", instructions.NetworkHost)
	}
	return nil
}

// describeMount returns a mount as the history has it: what it was given, in a fixed order, with its variables expanded.
func describeMount(m *instructions.Mount) string {
	words := []string{"type=" + string(m.Type)}
	add := func(name, value string) {
		if value == "" {
			return
		}
		if strings.ContainsAny(value, ",\" ") {
			value = strconv.Quote(value)
		}
		words = append(words, name+"="+value)
	}
	number := func(name string, value *uint64, base int) {
		if value != nil {
			add(name, strconv.FormatUint(*value, base))
		}
	}
	add("id", m.CacheID)
	add("from", m.From)
	add("source", m.Source)
	add("target", m.Target)
	add("sharing", string(m.CacheSharing))
	if m.SizeLimit > 0 {
		add("size", strconv.FormatInt(m.SizeLimit, 10))
	}
	number("mode", m.Mode, 8)
	number("uid", m.UID, 10)
	number("gid", m.GID, 10)
	if m.Env != nil {
		words = append(words, "env="+*m.Env)
	}
	if m.Required {
		words = append(words, "required")
	}
	readOnly := m.Type == instructions.MountTypeBind || m.Type == instructions.MountTypeSecret
	switch {
	case m.ReadOnly && !readOnly:
		words = append(words, "ro")
	case !m.ReadOnly && readOnly:
		words = append(words, "rw")
	}
	return "--mount=" + strings.Join(words, ",")
}

package dockerfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// Text returns an instruction as "Step 1/2 : " shows it.
func Text(cmd instructions.Command) string {
	if s, ok := cmd.(fmt.Stringer); ok {
		return s.String()
	}
	return keywordOf(cmd)
}

// Describe returns what the history says of an instruction that Edit took: "/bin/sh -c #(nop)  ENV A=1". s is the state
// after it. The wording is that of Docker's classic builder, by which images from elsewhere count as done.
func (s State) Describe(cmd instructions.Command) string {
	if _, ok := cmd.(*instructions.WorkdirCommand); ok {
		return s.describeNop("WORKDIR " + s.Config.WorkingDir)
	}
	return s.describeNop(" " + s.describeInstruction(cmd))
}

// describeNop returns what the history says of an instruction that runs no command.
func (s State) describeNop(text string) string {
	return strings.Join(append(shellOf(s.Config.Shell), "#(nop) "+text), " ")
}

// describeInstruction returns the words of the history for an instruction that changes the config alone.
func (s State) describeInstruction(cmd instructions.Command) string {
	switch cmd := cmd.(type) {
	case *instructions.ArgCommand:
		words := []string{"ARG"}
		for _, arg := range cmd.Args {
			if arg.Value == nil {
				words = append(words, arg.Key)
			} else {
				words = append(words, arg.String())
			}
		}
		return strings.Join(words, " ")
	case *instructions.MaintainerCommand:
		return "MAINTAINER " + cmd.Maintainer
	case *instructions.EnvCommand:
		return describePairs("ENV", cmd.Env)
	case *instructions.LabelCommand:
		return describePairs("LABEL", cmd.Labels)
	case *instructions.CmdCommand:
		return fmt.Sprintf("CMD %q", s.Config.Cmd)
	case *instructions.EntrypointCommand:
		return fmt.Sprintf("ENTRYPOINT %q", s.Config.Entrypoint)
	case *instructions.ExposeCommand:
		return "EXPOSE " + strings.Join(cmd.Ports, " ")
	case *instructions.UserCommand:
		return "USER " + s.Config.User
	case *instructions.VolumeCommand:
		return fmt.Sprintf("VOLUME %v", cmd.Volumes)
	case *instructions.StopSignalCommand:
		return "STOPSIGNAL " + cmd.Signal
	case *instructions.OnbuildCommand:
		return "ONBUILD " + cmd.Expression
	case *instructions.HealthCheckCommand:
		h := s.Config.Healthcheck
		start := strconv.Quote(h.StartPeriod.String())
		if h.StartInterval != 0 {
			start += " " + strconv.Quote(h.StartInterval.String())
		}
		return fmt.Sprintf("HEALTHCHECK &{%q %q %q %s %s}", h.Test, h.Interval, h.Timeout, start,
			strconv.QuoteRune(rune(h.Retries))) // as Docker's %q has it
	case *instructions.ShellCommand:
		return fmt.Sprintf("SHELL %v", cmd.Shell)
	}
	return Text(cmd)
}

func describePairs(word string, pairs instructions.KeyValuePairs) string {
	words := append(make([]string, 0, 1+len(pairs)), word)
	for _, pair := range pairs {
		words = append(words, pair.String())
	}
	return strings.Join(words, " ")
}

// DescribeCopy returns what the history says of a COPY or ADD: "/bin/sh -c #(nop) COPY file:<sha256> in /x ". content is
// such as file:<sha256>. Flags that make another outcome of the same content stand before it; who owns it and what is
// left out is in the digest already.
func (s State) DescribeCopy(cmd instructions.Command, content string) string {
	words := []string{keywordOf(cmd)}
	var dest string
	switch cmd := cmd.(type) {
	case *instructions.AddCommand:
		dest = cmd.DestPath
		if cmd.Link {
			words = append(words, "--link")
		}
		if cmd.Unpack != nil {
			words = append(words, "--unpack="+strconv.FormatBool(*cmd.Unpack))
		}
	case *instructions.CopyCommand:
		dest = cmd.DestPath
		if cmd.Link {
			words = append(words, "--link")
		}
		if cmd.Parents {
			words = append(words, "--parents")
		}
	}
	return s.describeNop(strings.Join(slices.Concat(words, []string{content, "in", dest}), " ") + " ")
}

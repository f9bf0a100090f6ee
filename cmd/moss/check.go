package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"moss/cmd/moss/show"
)

// damagePrefix begins the warnings of the engine's info that tell of damaged files.
const damagePrefix = "damaged: "

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Show damaged files of the engine's data folder",
		Long: "Show damaged files of the engine's data folder, one per line. The engine goes on without them: it finds them when it starts or\n" +
			"needs them, and moves them into the folder 'damaged', where they stay until you delete them. The exit status is 1 if there are any.",
		Example: "  moss system check",
		Args:    requireArgs(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.showDamage(cmd.Context()) },
	}
}

func (a *app) showDamage(ctx context.Context) error {
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	raw, err := engine.Info(ctx)
	if err != nil {
		return err
	}
	var info struct{ Warnings []string }
	if err := json.Unmarshal(raw, &info); err != nil {
		return fmt.Errorf("read the engine's info: %w", err)
	}
	damaged := 0
	for _, warning := range info.Warnings {
		text, ok := strings.CutPrefix(warning, damagePrefix)
		if !ok {
			continue
		}
		damaged++
		if err := a.printLine(show.Plain(text)); err != nil {
			return err
		}
	}
	if damaged > 0 {
		return &exit{code: exitFailed}
	}
	return a.printLine("No damaged files are known.")
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
	"moss/cmd/moss/show"
)

func (a *app) eventsCommand() *cobra.Command {
	var since, until, format string
	var filters []string
	cmd := &cobra.Command{
		Use:     "events [flags]",
		Short:   "Show the engine's events as they happen",
		Example: "  moss events --since 10m --filter type=container --filter event=die",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			var opts client.EventsOptions
			var err error
			if opts.Since, err = arg.Time(since, now); err != nil {
				return usageError(cmd, err)
			}
			if opts.Until, err = arg.Time(until, now); err != nil {
				return usageError(cmd, err)
			}
			if opts.Filters, err = arg.Filters(filters); err != nil {
				return usageError(cmd, err)
			}
			return a.showEvents(cmd.Context(), opts, format)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "show events from a `TIME` on: a date, Unix seconds or a duration such as 10m")
	flags.StringVar(&until, "until", "", "end at a `TIME`")
	flags.StringArrayVarP(&filters, "filter", "f", nil, "filter by `KEY=VALUE`: type, event, container, image, label, scope, …")
	flags.StringVar(&format, "format", "", "a Go template for each, or json")
	return cmd
}

func (a *app) showEvents(ctx context.Context, opts client.EventsOptions, format string) error {
	var template *show.Template
	if format != "" && format != "json" {
		var err error
		if template, err = show.ParseTemplate(format); err != nil {
			return err
		}
	}
	engine, err := a.engineClient()
	if err != nil {
		return err
	}
	return a.goOnEvents(ctx, engine, opts, func(event types.Event, raw json.RawMessage) error {
		switch {
		case template != nil:
			return template.Write(a.stdout, event)
		case format == "json":
			return a.printLine(string(raw))
		default:
			return a.printLine(eventText(event))
		}
	})
}

func eventText(event types.Event) string {
	at := time.Unix(0, event.TimeNano)
	if event.TimeNano == 0 {
		at = time.Unix(event.Time, 0)
	}
	text := at.Format("2006-01-02T15:04:05.000000000Z07:00") + " " + event.Type + " " + event.Action + " " + event.Actor.ID
	if len(event.Actor.Attributes) > 0 {
		pairs := make([]string, 0, len(event.Actor.Attributes))
		for _, key := range sortedKeys(event.Actor.Attributes) {
			pairs = append(pairs, key+"="+event.Actor.Attributes[key])
		}
		text += " (" + strings.Join(pairs, ", ") + ")"
	}
	return show.Plain(text)
}

func (a *app) infoCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "info [flags]",
		Short:   "Show the engine's state and settings",
		Example: "  moss info --format '{{.Driver}}'",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			raw, err := engine.Info(cmd.Context())
			if err != nil {
				return err
			}
			if format != "" {
				return show.Records(a.stdout, format, []json.RawMessage{raw})
			}
			return a.showInfo(raw)
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template, or json")
	return cmd
}

func (a *app) showInfo(raw json.RawMessage) error {
	var info map[string]any
	value, err := show.Value(raw)
	if err != nil {
		return err
	}
	info, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("the engine's info is no object: %.40s", raw)
	}
	for _, line := range []struct{ key, title string }{
		{"Containers", "Containers"},
		{"ContainersRunning", " Running"},
		{"ContainersPaused", " Paused"},
		{"ContainersStopped", " Stopped"},
		{"Images", "Images"},
		{"ServerVersion", "Engine version"},
		{"Driver", "Storage driver"},
		{"LoggingDriver", "Log driver"},
		{"CgroupDriver", "Cgroup driver"},
		{"DefaultRuntime", "Runtime"},
		{"SecurityOptions", "Security options"},
		{"KernelVersion", "Kernel version"},
		{"OperatingSystem", "Operating system"},
		{"OSType", "OS type"},
		{"Architecture", "Architecture"},
		{"NCPU", "CPUs"},
		{"MemTotal", "Memory"},
		{"Name", "Name"},
		{"ID", "ID"},
		{"DockerRootDir", "Data folder"},
		{"HttpProxy", "HTTP proxy"},
		{"HttpsProxy", "HTTPS proxy"},
		{"NoProxy", "No proxy"},
		{"Labels", "Labels"},
		{"DriverStatus", "Storage"},
		{"SystemStatus", "Status"},
	} {
		value, known := info[line.key]
		if !known || value == nil || value == "" {
			continue
		}
		if err := a.printInfo(line.title, line.key, value); err != nil {
			return err
		}
	}
	if warnings, ok := info["Warnings"].([]any); ok {
		for _, text := range warnings {
			a.printWarnings([]string{fmt.Sprint(text)})
		}
	}
	return nil
}

func (a *app) printInfo(title, key string, value any) error {
	switch value := value.(type) {
	case []any:
		if len(value) == 0 {
			return nil
		}
		if err := a.printLine(title + ":"); err != nil {
			return err
		}
		for _, item := range value {
			text := fmt.Sprint(item)
			if pair, ok := item.([]any); ok && len(pair) == 2 {
				text = fmt.Sprint(pair[0]) + ": " + fmt.Sprint(pair[1])
			}
			if err := a.printLine(" " + show.Plain(text)); err != nil {
				return err
			}
		}
		return nil
	case int64:
		if key == "MemTotal" {
			return a.printLine(title + ": " + show.Size(value))
		}
	}
	return a.printLine(title + ": " + show.Plain(fmt.Sprint(value)))
}

// versions is what version shows, under the names that templates of other command lines use.
type versions struct {
	Client clientVersion
	Server *serverVersion
}

type clientVersion struct {
	Version    string
	APIVersion string `json:"ApiVersion"`
	GitCommit  string
	GoVersion  string
	Os         string
	Arch       string
}

// serverVersion is what version shows of the engine, without what it does not tell.
type serverVersion struct {
	Version       string
	APIVersion    string `json:"ApiVersion"`
	MinAPIVersion string `json:",omitempty"`
	GitCommit     string `json:",omitempty"`
	GoVersion     string
	Os            string
	Arch          string
	KernelVersion string `json:",omitempty"`
	BuildTime     string `json:",omitempty"`
	Experimental  bool   `json:",omitempty"`
}

func (a *app) versionCommand() *cobra.Command {
	var format string
	var clientOnly bool
	cmd := &cobra.Command{
		Use:     "version [flags]",
		Short:   "Show the versions of this command and of the engine",
		Example: "  moss version --format '{{.Server.Version}}'",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			known := versions{Client: clientVersion{
				Version: version, APIVersion: client.DefaultVersion, GitCommit: commit, GoVersion: runtime.Version(),
				Os: runtime.GOOS, Arch: runtime.GOARCH,
			}}
			var failed error
			if !clientOnly {
				known.Server, failed = a.engineVersion(cmd.Context())
			}
			// The half that is known is shown even if the engine cannot be reached.
			if err := showVersions(a.stdout, format, known); err != nil {
				return err
			}
			return failed
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", "a Go template, or json")
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask the engine")
	return cmd
}

func (a *app) engineVersion(ctx context.Context) (*serverVersion, error) {
	engine, err := a.engineClient()
	if err != nil {
		return nil, err
	}
	found, err := engine.Version(ctx)
	if err != nil {
		return nil, err
	}
	return &serverVersion{
		Version: found.Version, APIVersion: found.APIVersion, MinAPIVersion: found.MinAPIVersion, GitCommit: found.GitCommit,
		GoVersion: found.GoVersion, Os: found.Os, Arch: found.Arch, KernelVersion: found.KernelVersion,
		BuildTime: found.BuildTime, Experimental: found.Experimental,
	}, nil
}

func showVersions(out io.Writer, format string, known versions) error {
	if format != "" {
		template, err := show.ParseTemplate(format)
		if err != nil {
			return err
		}
		return template.Write(out, known)
	}
	_, err := fmt.Fprintf(out, "Client:\n Version:      %s\n API version:  %s\n Go version:   %s\n OS/Arch:      %s/%s\n",
		known.Client.Version, known.Client.APIVersion, known.Client.GoVersion, known.Client.Os, known.Client.Arch)
	if err != nil || known.Server == nil {
		return err
	}
	server := known.Server
	_, err = fmt.Fprintf(out, "\nEngine:\n Version:      %s\n API version:  %s\n Go version:   %s\n OS/Arch:      %s/%s\n"+
		" Kernel:       %s\n", server.Version, server.APIVersion, server.GoVersion, server.Os, server.Arch, server.KernelVersion)
	return err
}

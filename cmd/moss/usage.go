package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"moss/api/types"
	"moss/cmd/moss/show"
)

func (a *app) usageCommand() *cobra.Command {
	var verbose bool
	var format string
	cmd := &cobra.Command{
		Use:   "df [flags]",
		Short: "Show disk usage of images, containers, volumes and the build cache",
		Long: "Show disk usage of images, containers, volumes and the build cache. A layer that several images share is counted once.\n" +
			"What can be reclaimed of images is what 'moss image prune -a' gives back.",
		Example: "  moss system df -v",
		Args:    requireArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if verbose && format != "" {
				return usageError(cmd, errors.New("--verbose cannot be combined with --format"))
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			used, err := engine.DiskUsage(cmd.Context())
			if err != nil {
				return err
			}
			if verbose {
				return a.showUsageOfEach(used)
			}
			return a.showUsage(used, format)
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show each image, container, volume and piece of the build cache")
	cmd.Flags().StringVar(&format, "format", "", "a Go template, 'table TEMPLATE' or json")
	return cmd
}

func (a *app) showUsage(used types.DiskUsage, format string) error {
	rows := []show.Row{usageOfImages(used), usageOfContainers(used), usageOfVolumes(used), usageOfBuilds(used)}
	columns := []show.Column{
		{Field: "Type", Title: "TYPE"},
		{Field: "TotalCount", Title: "TOTAL"},
		{Field: "Active", Title: "ACTIVE"},
		{Field: "Size", Title: "SIZE"},
		{Field: "Reclaimable", Title: "RECLAIMABLE"},
	}
	return a.tableView(false).Table(a.stdout, format, columns, nil, rows)
}

func usageRow(kind string, total, active int, size, reclaimable int64) show.Row {
	text := show.Size(reclaimable)
	if size > 0 {
		text += fmt.Sprintf(" (%d%%)", reclaimable*100/size)
	}
	return show.Row{
		"Type": kind, "TotalCount": strconv.Itoa(total), "Active": strconv.Itoa(active), "Size": show.Size(size), "Reclaimable": text,
	}
}

// usageOfImages takes for kept the layers of images that containers use, those that unused images have as well included.
func usageOfImages(used types.DiskUsage) show.Row {
	active := 0
	for _, image := range used.Images {
		if image.Containers > 0 {
			active++
		}
	}
	return usageRow("Images", len(used.Images), active, used.LayersSize, used.LayersSize-used.LayersUsed)
}

func usageOfContainers(used types.DiskUsage) show.Row {
	active, size, reclaimable := 0, int64(0), int64(0)
	for _, ctr := range used.Containers {
		size += shownSize(ctr.SizeRw)
		if survivesPrune(ctr.State) {
			active++
		} else {
			reclaimable += shownSize(ctr.SizeRw)
		}
	}
	return usageRow("Containers", len(used.Containers), active, size, reclaimable)
}

// survivesPrune reports whether a container in a state is there after a prune.
func survivesPrune(state string) bool {
	return state == "running" || state == "paused" || state == "restarting"
}

func usageOfVolumes(used types.DiskUsage) show.Row {
	active, size, reclaimable := 0, int64(0), int64(0)
	for _, volume := range used.Volumes {
		size += max(volume.UsageData.Size, 0) // -1: not known
		if volume.UsageData.RefCount > 0 {
			active++
		} else {
			reclaimable += max(volume.UsageData.Size, 0)
		}
	}
	return usageRow("Local Volumes", len(used.Volumes), active, size, reclaimable)
}

// usageOfBuilds counts what only the cache has: what images have too is theirs.
func usageOfBuilds(used types.DiskUsage) show.Row {
	active, size, reclaimable := 0, int64(0), int64(0)
	for _, cache := range used.BuildCache {
		if cache.InUse {
			active++
		}
		if cache.Shared {
			continue
		}
		size += cache.Size
		if !cache.InUse {
			reclaimable += cache.Size
		}
	}
	return usageRow("Build Cache", len(used.BuildCache), active, size, reclaimable)
}

// showUsageOfEach shows one table for each kind.
func (a *app) showUsageOfEach(used types.DiskUsage) error {
	now := time.Now()
	images := make([][]string, 0, 1+len(used.Images))
	images = append(images, []string{"REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE", "SHARED SIZE", "UNIQUE SIZE", "CONTAINERS"})
	for _, image := range used.Images {
		for _, row := range imageRows(image.ImageSummary, false, now) {
			images = append(images, []string{
				row["Repository"], row["Tag"], row["ID"], row["CreatedSince"], row["Size"], show.Size(image.SharedSize),
				show.Size(image.UniqueSize), strconv.Itoa(image.Containers),
			})
		}
	}
	containers := make([][]string, 0, 1+len(used.Containers))
	containers = append(containers, []string{"CONTAINER ID", "IMAGE", "COMMAND", "LOCAL VOLUMES", "SIZE", "CREATED", "STATUS", "NAMES"})
	for _, ctr := range used.Containers {
		row := containerRow(*ctr, false, now)
		local := 0
		for _, mount := range ctr.Mounts {
			if mount.Name != "" {
				local++
			}
		}
		containers = append(containers, []string{
			row["ID"], row["Image"], row["Command"], strconv.Itoa(local), show.Size(shownSize(ctr.SizeRw)),
			row["RunningFor"], row["Status"], row["Names"],
		})
	}
	volumes := make([][]string, 0, 1+len(used.Volumes))
	volumes = append(volumes, []string{"VOLUME NAME", "LINKS", "SIZE"})
	for _, volume := range used.Volumes {
		volumes = append(volumes, []string{volume.Name, strconv.Itoa(volume.UsageData.RefCount), show.Size(max(volume.UsageData.Size, 0))})
	}
	for _, table := range []struct {
		title string
		lines [][]string
	}{
		{"Images space usage:\n", images},
		{"\nContainers space usage:\n", containers},
		{"\nLocal Volumes space usage:\n", volumes},
		{"\nBuild cache usage:\n", cacheLines(used.BuildCache, now)},
	} {
		if err := a.printLine(table.title); err != nil {
			return err
		}
		if err := a.tableView(false).Grid(a.stdout, table.lines); err != nil {
			return err
		}
	}
	return nil
}

// cacheLines is the table of the build cache.
func cacheLines(list []types.BuildCache, now time.Time) [][]string {
	lines := make([][]string, 0, 1+len(list))
	lines = append(lines, []string{"CACHE ID", "CACHE TYPE", "SIZE", "CREATED", "LAST USED", "USAGE", "SHARED"})
	for _, cache := range list {
		last := ""
		if cache.LastUsedAt != nil {
			last = show.Since(*cache.LastUsedAt, now)
		}
		lines = append(lines, []string{
			shortenID(cache.ID, false), cache.Type, show.Size(cache.Size), show.Since(cache.CreatedAt, now), last,
			strconv.Itoa(cache.UsageCount), strconv.FormatBool(cache.Shared),
		})
	}
	return lines
}

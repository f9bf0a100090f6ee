package container

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"moss/engine/fault"
)

// Bounds in bytes of what every line of a log carries.
const (
	maxLogAttrs = 64 << 10 // of labels and variables
	maxLogTag   = 1 << 10  // of the tag's template
)

// LogAttrs says which of a container's labels and variables go with every entry of its log, and under which tag.
type LogAttrs struct {
	Labels, Env           []string       // names
	LabelsRegex, EnvRegex *regexp.Regexp // patterns of names; nil: none
	Tag                   string         // a template; see expandTag
}

// setOption sets one option of a log driver. known is false if it is none of attributes; fault.Invalid names the option.
func (a *LogAttrs) setOption(key, value string) (known bool, err error) {
	switch key {
	case "labels":
		a.Labels = splitNames(value)
	case "env":
		a.Env = splitNames(value)
	case "labels-regex":
		a.LabelsRegex, err = regexp.Compile(value)
	case "env-regex":
		a.EnvRegex, err = regexp.Compile(value)
	case "tag":
		a.Tag = value
		if _, err = expandTag(value, &Record{}); len(value) > maxLogTag {
			err = fault.Invalid("it has %d bytes, more than %d", len(value), maxLogTag)
		}
	default:
		return false, nil
	}
	if err != nil {
		return true, fault.Invalid("invalid value %.80q of log opt '%s': %w", value, key, err)
	}
	return true, nil
}

// JournalFields are what every entry of a container in the journal carries, by the names that other engines' drivers use.
func (l *Log) JournalFields(r *Record) map[string]string {
	fields := l.Attrs.Of(r)
	if fields == nil {
		fields = map[string]string{}
	}
	tag := fields["tag"]
	delete(fields, "tag")
	if tag == "" {
		tag = shortID(r.ID)
	}
	fields["CONTAINER_ID"], fields["CONTAINER_NAME"], fields["IMAGE_NAME"] = shortID(r.ID), r.Name, r.Image
	fields["CONTAINER_TAG"], fields["SYSLOG_IDENTIFIER"] = tag, tag
	return fields
}

// splitNames splits a list at its commas.
func splitNames(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(name string) bool { return name == "" })
}

// checkSize bounds the size of the attributes of a container's log entries.
func (a *LogAttrs) checkSize(c *Config) error {
	size := 0
	for name, value := range a.Of(&Record{Config: *c}) {
		size += len(name) + len(value)
	}
	if size > maxLogAttrs {
		return fault.Invalid("invalid LogConfig: the labels and variables for each line have %d bytes, more than %d", size, maxLogAttrs)
	}
	return nil
}

// Of returns the attributes of a container's log entries; nil if there are none.
func (a *LogAttrs) Of(r *Record) map[string]string {
	attrs := map[string]string{}
	for name, value := range r.Config.Labels {
		if slices.Contains(a.Labels, name) || a.LabelsRegex != nil && a.LabelsRegex.MatchString(name) {
			attrs[name] = value
		}
	}
	for _, entry := range r.Config.Env {
		name, value, set := strings.Cut(entry, "=")
		if !set {
			continue
		}
		if slices.Contains(a.Env, name) || a.EnvRegex != nil && a.EnvRegex.MatchString(name) {
			attrs[name] = value
		}
	}
	if tag, err := expandTag(a.Tag, r); err == nil && tag != "" {
		attrs["tag"] = tag
	}
	if len(attrs) == 0 {
		return nil
	}
	return attrs
}

// tagField is one field of a tag's template.
//
//nolint:gochecknoglobals // a constant
var tagField = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{\{\s*\.([A-Za-z]+)\s*\}\}`)
})

// expandTag fills a tag's template: text with {{.ID}}, {{.FullID}}, {{.Name}}, {{.ImageID}}, {{.ImageFullID}},
// {{.ImageName}}, {{.Command}} and {{.DaemonName}}. Anything else in braces is fault.Invalid.
func expandTag(template string, r *Record) (string, error) {
	fields := map[string]string{
		"ID": shortID(r.ID), "FullID": r.ID, "Name": r.Name, "ImageID": shortID(strings.TrimPrefix(r.ImageID, "sha256:")),
		"ImageFullID": r.ImageID, "ImageName": r.Image, "Command": r.Path, "DaemonName": "moss",
	}
	var bad string
	tag := tagField().ReplaceAllStringFunc(template, func(found string) string {
		name := tagField().FindStringSubmatch(found)[1]
		value, ok := fields[name]
		if !ok {
			bad = found
		}
		return value
	})
	if bad == "" && strings.Contains(tagField().ReplaceAllString(template, ""), "{{") {
		bad = template
	}
	if bad != "" {
		return "", fault.Invalid("unknown template %s: want %s", bad, "{{.ID}}, {{.FullID}}, {{.Name}}, {{.ImageID}},"+
			" {{.ImageFullID}}, {{.ImageName}}, {{.Command}} or {{.DaemonName}}")
	}
	return tag, nil
}

// shortID returns an id as it is shown.
func shortID(id string) string { return id[:min(len(id), 12)] }

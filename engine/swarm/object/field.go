package object

import (
	"net/netip"
	"strings"
	"time"

	gogotypes "github.com/gogo/protobuf/types"
	"github.com/moby/swarmkit/v2/api"

	"moss/api/types"
	"moss/engine/fault"
)

// refuseField is the error of a field's value.
func refuseField(field, format string, args ...any) error {
	return fault.Invalid(field+": "+format, args...)
}

// option is one value of a field that takes a few texts.
type option[T comparable] struct {
	text  string
	value T
}

// toOption reads a text in any case. The empty text is the first option.
func toOption[T comparable](field, text string, options []option[T]) (T, error) {
	if text == "" {
		return options[0].value, nil
	}
	texts := make([]string, len(options))
	for i, o := range options {
		if strings.EqualFold(o.text, text) {
			return o.value, nil
		}
		texts[i] = o.text
	}
	return options[0].value, refuseField(field, "invalid value %q: want %s", text, strings.Join(texts, ", "))
}

// newOption returns the text of a value, empty for one that clients are not told of.
func newOption[T comparable](value T, options []option[T]) string {
	for _, o := range options {
		if o.value == value {
			return o.text
		}
	}
	return ""
}

// toDuration reads a length of time that may be left open.
func toDuration(field string, d *time.Duration) (*gogotypes.Duration, error) {
	if d == nil {
		return nil, nil
	}
	if *d < 0 {
		return nil, refuseField(field, "%s cannot be negative", *d)
	}
	return gogotypes.DurationProto(*d), nil
}

// newDuration returns nil for a length that is left open, and for one that no time.Duration can hold.
func newDuration(d *gogotypes.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	length, err := gogotypes.DurationFromProto(d)
	if err != nil {
		return nil
	}
	return &length
}

// lengthOf is newDuration with 0 for nil.
func lengthOf(d *gogotypes.Duration) time.Duration {
	if length := newDuration(d); length != nil {
		return *length
	}
	return 0
}

// newTime returns the zero time for a moment that is not set.
func newTime(t *gogotypes.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	at, err := gogotypes.TimestampFromProto(t)
	if err != nil {
		return time.Time{}
	}
	return at
}

func newMeta(m *api.Meta) types.ObjectMeta {
	return types.ObjectMeta{
		Version:   types.ObjectVersion{Index: m.Version.Index},
		CreatedAt: newTime(m.CreatedAt), UpdatedAt: newTime(m.UpdatedAt),
	}
}

// newAnnotations shows labels always: clients read them without a look.
func newAnnotations(a *api.Annotations) types.Annotations {
	labels := a.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return types.Annotations{Name: a.Name, Labels: labels}
}

// refuseValue is refuseField for a check that does not know where the value stands.
func refuseValue(format string, args ...any) error { return fault.Invalid(format, args...) }

// checkKeys refuses labels without a key.
func checkKeys(labels map[string]string) error {
	if _, empty := labels[""]; empty {
		return refuseValue("a label has no key")
	}
	return nil
}

// isAddress reports whether a text is an address of version 4 or 6.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// convertList converts each element; nil stays nil.
func convertList[From, To any](list []From, convert func(*From) To) []To {
	if list == nil {
		return nil
	}
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = convert(&list[i])
	}
	return converted
}

package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"

	"moss/api/apiver"
	"moss/engine/fault"
)

// Decode reads one JSON value from raw into the value that into points to. Fields that the version does not have are
// left at zero, as unknown ones are ignored. Malformed JSON, anything behind the value, and a field of the wrong type
// are fault.Invalid with the field and the expected type in the text.
func Decode(raw []byte, into any, version apiver.Version) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(into); err != nil {
		return describeError(err, reflect.TypeOf(into))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault.Invalid("malformed JSON: unexpected data after the value, at byte %d", d.InputOffset())
	}
	v := reflect.ValueOf(into)
	stripFields(v, plans.planOf(v.Type()), version)
	return nil
}

// describeError says what is wrong with a body in the client's terms.
func describeError(err error, into reflect.Type) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType):
		where := withoutEmbedded(wrongType.Field, into)
		if where == "" {
			where = "the body"
		}
		return fault.Invalid("invalid value for %s: got %s, want %s", where, wrongType.Value, typeName(wrongType.Type))
	case errors.As(err, &syntax):
		return fault.Invalid("malformed JSON at byte %d: %w", syntax.Offset, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Invalid("malformed JSON: the body ends too early")
	default:
		return fault.Invalid("malformed JSON: %w", err)
	}
}

// withoutEmbedded takes the names of embedded structs off the front of a field's path: encoding/json names them, the JSON
// does not hold them.
func withoutEmbedded(path string, t reflect.Type) string {
	for {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return path
		}
		first, rest, ok := strings.Cut(path, ".")
		field, found := t.FieldByName(first)
		if !ok || !found || !field.Anonymous {
			return path
		}
		path, t = rest, field.Type
	}
}

// typeName names a type as someone who writes JSON knows it.
func typeName(t reflect.Type) string {
	if t == nil {
		return "another type"
	}
	// Types that read more than one form say so.
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String && t.Name() == "Strings" {
		return "a string or an array of strings"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint16:
		return "an integer from 0 to 65535"
	case reflect.Uint, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return "an integer that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		if t.Name() == "Signal" {
			return "a signal's name or number"
		}
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array of " + pluralName(t.Elem())
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Pointer:
		return typeName(t.Elem())
	default:
		return "another type"
	}
}

func pluralName(t reflect.Type) string {
	_, noun, _ := strings.Cut(typeName(t), " ")
	noun, _, _ = strings.Cut(noun, " ") // without what narrows it
	if noun == "" {
		return "values"
	}
	return noun + "s"
}

// stripFields sets the fields to zero that a version does not have. v may be changed.
func stripFields(v reflect.Value, p *plan, version apiver.Version) {
	if !p.ranged || p.custom != notCustom {
		return
	}
	switch p.kind {
	case reflect.Pointer:
		if !v.IsNil() {
			stripFields(v.Elem(), p.elem, version)
		}
	case reflect.Struct:
		for i := range p.fields {
			f := &p.fields[i]
			fv := v.FieldByIndex(f.index)
			if !f.versions.Has(version) {
				fv.SetZero()
				continue
			}
			stripFields(fv, f.plan, version)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			stripFields(v.Index(i), p.elem, version)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			// A map's values cannot be changed in their place.
			held := reflect.New(v.Type().Elem()).Elem()
			held.Set(v.MapIndex(key))
			stripFields(held, p.elem, version)
			v.SetMapIndex(key, held)
		}
	default:
	}
}

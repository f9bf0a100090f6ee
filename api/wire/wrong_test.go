package wire_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/fault"
)

// TestWrongTypesNameTheField gives every field of every body of containers, exec instances and registries values of other kinds.
func TestWrongTypesNameTheField(t *testing.T) {
	for _, body := range []any{
		types.ContainerCreate{}, types.ContainerUpdate{}, types.Config{}, types.HostConfig{}, types.ExecCreate{}, types.ExecStart{}, types.CopySource{}, types.AuthConfig{},
	} {
		into := reflect.TypeOf(body)
		fields := 0
		for path, wrong := range wrongValues(into, "", 0) {
			fields++
			for _, value := range wrong {
				raw := fmt.Sprintf(nest(path), value)
				err := wire.Decode([]byte(raw), reflect.New(into).Interface(), apiver.New(1, 24))
				name := path[strings.LastIndexByte(path, '.')+1:]
				if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), name) {
					t.Errorf("%v: %s: got %v, want fault.Invalid naming %s", into, raw, err, name)
				}
			}
		}
		if fields == 0 {
			t.Errorf("%v has no fields", into)
		}
	}
}

// nest turns the path of a field into a body with a place for its value: a.b becomes {"a":{"b":%s}}, a.0.b {"a":[{"b":%s}]}.
func nest(path string) string {
	text := "%s"
	for _, part := range slices.Backward(strings.Split(path, ".")) {
		if part == "0" {
			text = "[" + text + "]"
		} else {
			text = `{"` + part + `":` + text + "}"
		}
	}
	return text
}

// wrongValues lists, by path, values that the fields of a struct cannot take.
func wrongValues(t reflect.Type, path string, depth int) map[string][]string {
	all := map[string][]string{}
	if depth > 3 {
		return all
	}
	for f := range t.Fields() {
		below := path
		if !f.Anonymous {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			below = strings.TrimPrefix(path+"."+name, ".")
			if wrong := wrongFor(f.Type); wrong != nil {
				all[below] = wrong
			}
		}
		inner, lists := f.Type, 0
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			if inner.Kind() == reflect.Slice {
				lists++
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && f.Type.Name() != "LxcConf" { // which is named as a whole
			maps.Copy(all, wrongValues(inner, below+strings.Repeat(".0", lists), depth+1))
		}
	}
	return all
}

func wrongFor(t reflect.Type) []string {
	switch t.Name() {
	case "Strings":
		return []string{"17", "true", `{"a":1}`, `[["a"]]`}
	case "Signal":
		return []string{"true", "[]", "1.5", "-1"}
	case "LxcConf":
		return []string{"17", "true", `"x"`}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wrongFor(t.Elem())
	case reflect.Bool:
		return []string{`"yes"`, "1", "[]", "{}"}
	case reflect.Int, reflect.Int64:
		return []string{`"5"`, "1.5", "true", "[]", "{}", "99999999999999999999"}
	case reflect.Uint, reflect.Uint16, reflect.Uint64:
		return []string{`"5"`, "-1", "1.5", "true", "99999999999999999999"}
	case reflect.String:
		return []string{"5", "true", "[]", "{}"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Interface {
			return []string{`"x"`, "5", "{}"}
		}
		return []string{`"x"`, "5", "{}", "[true]"}
	case reflect.Map:
		return []string{`"x"`, "5", "[1]"}
	case reflect.Struct:
		return []string{`"x"`, "5", "[1]", "true"}
	default:
		return nil
	}
}

package main

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"moss/api/route"
	"moss/api/types"
)

// The words of the list for what is no field and no parameter.
const (
	isEndpoint = "endpoint" // perhaps with the records that it takes and gives behind it
	isStatus   = "status"
	isFilter   = "filter" // a key of the parameter filters
	isHeader   = "header"
	isRule     = "rule" // how something behaves, in the words of the table
)

// declaredForms returns the JSON forms of types that encode themselves.
func declaredForms() map[reflect.Type]string {
	return map[reflect.Type]string{
		reflect.TypeFor[time.Time]():             "time",
		reflect.TypeFor[time.Duration]():         "int",
		reflect.TypeFor[json.RawMessage]():       "any",
		reflect.TypeFor[types.Secret]():          "string",
		reflect.TypeFor[types.Strings]():         "string or array of string",
		reflect.TypeFor[types.Signal]():          "string or int",
		reflect.TypeFor[types.LxcConf]():         "map of string or array of object",
		reflect.TypeFor[types.AuxAddresses]():    "map of string or string",
		reflect.TypeFor[types.ServiceResource](): "object",
		reflect.TypeFor[types.ServiceNetwork]():  "string or object",
	}
}

// unknownForm is of a type that encodes itself and is not declared, or that has no JSON form.
const unknownForm = "unknown"

// formOf returns the JSON form of a type in the list's words: string, int, bool, time (RFC 3339), object, any, and
// "array of" or "map of" one of them.
func formOf(t reflect.Type) string {
	if form, ok := declaredForms()[t]; ok {
		return form
	}
	if t.Kind() == reflect.Pointer {
		return formOf(t.Elem())
	}
	if t.Kind() != reflect.Interface && encodesItself(t) {
		return unknownForm
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Struct:
		return "object"
	case reflect.Interface:
		return "any"
	case reflect.Slice, reflect.Array:
		return "array of " + formOf(t.Elem())
	case reflect.Map:
		return "map of " + formOf(t.Elem())
	default:
		return unknownForm
	}
}

func encodesItself(t reflect.Type) bool {
	for _, self := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	} {
		if t.Implements(self) || reflect.PointerTo(t).Implements(self) {
			return true
		}
	}
	return false
}

// isForm reports whether the words are a form as formOf returns them.
func isForm(words string) bool {
	declared := slices.Collect(maps.Values(declaredForms()))
	for {
		if slices.Contains(declared, words) {
			return true
		}
		inner, list := strings.CutPrefix(words, "array of ")
		inner, set := strings.CutPrefix(inner, "map of ")
		if !list && !set {
			return slices.Contains([]string{"string", "int", "bool", "object", "any"}, words)
		}
		words = inner
	}
}

// isWider reports whether the form has the other one among its alternatives.
func isWider(form, than string) bool {
	return form != than && slices.Contains(strings.Split(form, " or "), than)
}

// columnKind says which words the list may have as the kind of an item.
func columnKind(name string) func(kind string) bool {
	if _, _, ok := shapeOf(name); ok {
		return isForm
	}
	is := func(words ...string) func(string) bool {
		return func(kind string) bool { return slices.Contains(words, kind) }
	}
	e, ok := parseEndpoint(name)
	switch {
	case !ok:
		return is(isRule)
	case e.what == "":
		return func(kind string) bool { return kind == isEndpoint || strings.HasPrefix(kind, isEndpoint+": ") }
	case e.status != 0:
		return is(isStatus)
	case strings.HasPrefix(e.what, "?filters="):
		return is(isFilter)
	case strings.HasPrefix(e.what, "?"):
		return is(string(route.Text), string(route.Bool), string(route.Int), string(route.Time), string(route.Filters), string(route.JSON))
	default:
		return is(isHeader, isRule)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"moss/api/apiver"
	"moss/api/route"
	"moss/api/types"
)

// field is one field of a wire struct, as package wire writes and reads it.
type field struct {
	name      string
	of        reflect.Type
	versions  apiver.Range
	omitEmpty bool
	always    apiver.Range // versions whose answers have it without a value too
}

// leavesOut reports whether an answer of a version goes without the field while it has no value.
func (f field) leavesOut(version apiver.Version) bool { return f.omitEmpty && !f.always.Has(version) }

// fieldsOf lists the fields of a struct, those of embedded structs in their place.
func fieldsOf(t reflect.Type) ([]field, error) {
	var fields []field
	for sf := range t.Fields() {
		tag, tagged := sf.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if sf.Anonymous && !tagged && sf.Type.Kind() == reflect.Struct {
			inner, err := fieldsOf(sf.Type)
			if err != nil {
				return nil, err
			}
			for _, f := range inner {
				if !hidesEmbedded(t, f.name) {
					fields = append(fields, f)
				}
			}
			continue
		}
		if !sf.IsExported() || tag == "-" {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		versions, err := apiver.ParseRange(sf.Tag.Get("api"))
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, sf.Name, err)
		}
		always, err := apiver.ParseAlways(sf.Tag)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, sf.Name, err)
		}
		omitEmpty := strings.Contains(options, "omitempty")
		fields = append(fields, field{name: name, of: sf.Type, versions: versions, omitEmpty: omitEmpty, always: always})
	}
	return fields, nil
}

// hidesEmbedded reports whether a struct has a field of its own in place of one of a struct that is embedded in it.
// One that only older versions have hides nothing from the newest.
func hidesEmbedded(t reflect.Type, name string) bool {
	for sf := range t.Fields() {
		own, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if !sf.Anonymous && !strings.HasPrefix(sf.Tag.Get("api"), "-") && (own == name || own == "" && sf.Name == name) {
			return true
		}
	}
	return false
}

// isServed reports whether a version that moss speaks has something.
func isServed(r apiver.Range) bool {
	return r.Since <= apiver.Max && (r.Until == 0 || r.Until >= apiver.Min)
}

// form is how a type that reads or writes itself looks in JSON.
type form struct {
	in, out object
	text    string // for people
}

// encodedForms returns the types that do; fieldsOf and reflection tell all about the others.
func encodedForms() map[reflect.Type]form {
	text := object{{"type", "string"}}
	same := func(o object, about string) form { return form{o, o, about} }
	texts := object{{"type", "array"}, {"items", text}, {"nullable", true}}
	return map[reflect.Type]form{
		reflect.TypeFor[time.Time]():          same(object{{"type", "string"}, {"format", "date-time"}}, "time"),
		reflect.TypeFor[time.Duration]():      same(object{{"type", "integer"}, {"format", "int64"}}, "integer, nanoseconds"),
		reflect.TypeFor[json.RawMessage]():    same(object{}, "JSON"),
		reflect.TypeFor[types.Secret]():       same(object{{"type", "string"}, {"format", "password"}}, "string"),
		reflect.TypeFor[types.AuxAddresses](): same(mapOf(text), "map of strings"),
		reflect.TypeFor[types.LxcConf]():      same(object{}, "map of strings, or array of objects with Key and Value"),
		reflect.TypeFor[types.Strings](): {
			in:   object{{"oneOf", list{text, object{{"type", "array"}, {"items", text}}}}, {"nullable", true}},
			out:  texts,
			text: "array of strings; a string is read too",
		},
		reflect.TypeFor[types.Signal](): {
			in:   object{{"oneOf", list{text, object{{"type", "integer"}}}}},
			out:  text,
			text: "string; a number is read too",
		},
	}
}

func mapOf(o object) object {
	return object{{"type", "object"}, {"additionalProperties", o}, {"nullable", true}}
}

// schemas collects the schemas of one version.
type schemas struct {
	version apiver.Version
	words   *words
	forms   map[reflect.Type]form
	read    map[reflect.Type]bool // structs that requests hold
	written map[reflect.Type]bool // structs that answers hold
	done    map[string]object
	names   map[string]reflect.Type
}

// newSchemas looks at all bodies, so that a struct that is read and written gets a schema for each: what is always written
// need not be sent.
func newSchemas(routes []route.Route, w *words, version apiver.Version) (*schemas, error) {
	s := &schemas{
		version: version, words: w, forms: encodedForms(), read: map[reflect.Type]bool{}, written: map[reflect.Type]bool{},
		done: map[string]object{}, names: map[string]reflect.Type{},
	}
	for _, r := range routes {
		if !r.Versions.Has(version) {
			continue
		}
		if r.Shape.In != nil && r.Shape.InVersions.Has(version) {
			if err := s.noteStructs(r.Shape.In, s.read); err != nil {
				return nil, err
			}
		}
		if r.Shape.Out != nil {
			if err := s.noteStructs(r.Shape.Out, s.written); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// noteStructs notes the structs that a type holds.
func (s *schemas) noteStructs(t reflect.Type, into map[reflect.Type]bool) error {
	if _, own := s.forms[t]; own || into[t] {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return s.noteStructs(t.Elem(), into)
	case reflect.Struct:
		into[t] = true
		fields, err := fieldsOf(t)
		if err != nil {
			return err
		}
		for _, f := range fields {
			if f.versions.Has(s.version) {
				if err := s.noteStructs(f.of, into); err != nil {
					return err
				}
			}
		}
	default:
	}
	return nil
}

// schemaOf returns the schema of a type in a request or an answer, and keeps those of the structs in it.
func (s *schemas) schemaOf(t reflect.Type, in bool) (object, error) {
	if f, own := s.forms[t]; own {
		if in {
			return f.in, nil
		}
		return f.out, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{{"type", "boolean"}}, nil
	case reflect.Int, reflect.Int64:
		return object{{"type", "integer"}, {"format", "int64"}}, nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return object{{"type", "integer"}, {"format", "int32"}}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{{"type", "integer"}, {"minimum", 0}}, nil
	case reflect.Float32, reflect.Float64:
		return object{{"type", "number"}}, nil
	case reflect.String:
		return object{{"type", "string"}}, nil
	case reflect.Interface:
		return object{{"nullable", true}}, nil
	case reflect.Pointer:
		elem, err := s.schemaOf(t.Elem(), in)
		return makeNullable(elem), err
	case reflect.Slice, reflect.Array:
		return s.ofList(t, in)
	case reflect.Map:
		elem, err := s.schemaOf(t.Elem(), in)
		return mapOf(elem), err
	case reflect.Struct:
		if t.NumField() == 0 {
			return object{{"type", "object"}}, nil
		}
		if t.Name() == "" { // it stands in its field
			o, err := s.propertiesOf(t, in)
			return append(object{{"type", "object"}}, o...), err
		}
		return s.ofStruct(t, in)
	default:
		return nil, fmt.Errorf("%s has no JSON form", t)
	}
}

func (s *schemas) ofList(t reflect.Type, in bool) (object, error) {
	if t.Elem().Kind() == reflect.Uint8 {
		return object{{"type", "string"}, {"format", "byte"}}, nil
	}
	elem, err := s.schemaOf(t.Elem(), in)
	o := object{{"type", "array"}, {"items", elem}}
	if t.Kind() == reflect.Array {
		return append(o, pair{"minItems", t.Len()}, pair{"maxItems", t.Len()}), err
	}
	return append(o, pair{"nullable", true}), err
}

// makeNullable lets a schema be null. A reference cannot say that beside itself.
func makeNullable(o object) object {
	switch {
	case len(o) > 0 && o[0].key == "$ref":
		return object{{"nullable", true}, {"allOf", list{o}}}
	case slices.ContainsFunc(o, func(p pair) bool { return p.key == "nullable" }):
		return o
	default:
		return append(slices.Clone(o), pair{"nullable", true})
	}
}

// notNull takes back what nullable adds.
func notNull(o object) object {
	if len(o) == 2 && o[0].key == "nullable" && o[1].key == "allOf" {
		if only, ok := o[1].value.(list); ok && len(only) == 1 {
			if ref, ok := only[0].(object); ok {
				return ref
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(o), func(p pair) bool { return p.key == "nullable" })
}

// ofStruct returns a reference to the schema of a struct.
func (s *schemas) ofStruct(t reflect.Type, in bool) (object, error) {
	name := t.Name()
	if in && s.written[t] {
		name += "Input"
	}
	ref := object{{"$ref", "#/components/schemas/" + name}}
	if other, known := s.names[name]; known {
		if other != t {
			return nil, fmt.Errorf("%s and %s have one name", t, other)
		}
		return ref, nil
	}
	s.names[name] = t
	about := s.words.textOf(t.Name())
	if about == "" {
		return nil, fmt.Errorf("words.txt says nothing of %s (%s)", t.Name(), t)
	}
	o, err := s.propertiesOf(t, in)
	if err != nil {
		return nil, err
	}
	s.done[name] = append(object{{"type", "object"}, {"description", about}}, o...)
	return ref, nil
}

// propertiesOf returns what the schema of a struct says of its fields.
func (s *schemas) propertiesOf(t reflect.Type, in bool) (object, error) {
	fields, err := fieldsOf(t)
	if err != nil {
		return nil, err
	}
	var properties object
	var needed list
	for _, f := range fields {
		if !f.versions.Has(s.version) {
			continue
		}
		schema, err := s.schemaOf(f.of, in)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.name, err)
		}
		properties.add(f.name, s.describeField(t.Name()+"."+f.name, f, schema, in))
		if !in && !f.leavesOut(s.version) {
			needed = append(needed, f.name)
		}
	}
	o := object{{"properties", properties}}
	if len(needed) > 0 {
		o.add("required", needed)
	}
	return o, nil
}

// describeField adds to the schema of a field what people have written of it.
func (s *schemas) describeField(name string, f field, schema object, in bool) object {
	if f.leavesOut(s.version) && !in {
		schema = notNull(schema)
	}
	about, enum := s.words.textOf(name), s.words.enumOf(name)
	if about == "" {
		return schema
	}
	if len(schema) > 0 && schema[0].key == "$ref" {
		return object{{"allOf", list{schema}}, {"description", about}}
	}
	schema = append(slices.Clone(schema), pair{"description", about})
	if len(enum) > 0 {
		words := make(list, 0, len(enum))
		for _, word := range enum {
			words = append(words, word)
		}
		schema.add("enum", words)
	}
	return schema
}

// componentSchemas returns the schemas by name, and the one of errors.
func (s *schemas) componentSchemas() object {
	var o object
	for _, name := range slices.Sorted(keysOf(s.done)) {
		o.add(name, s.done[name])
	}
	return o
}

package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"moss/api/apiver"
)

// Encode returns v as JSON in the form of a version: as encoding/json would write it, without the fields whose range
// does not hold the version, and with < > & as they are. There is no newline at the end. Values may be wire types or
// anything encoding/json takes; errors are those of types that encode themselves.
func Encode(v any, version apiver.Version) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	value := reflect.ValueOf(v)
	p := plans.planOf(value.Type())
	// As much as the last one took, and some more: growing means copying.
	last := int(p.size.Load())
	e := encoder{version: version, out: make([]byte, 0, max(512, last+last/8))}
	if err := e.encodeValue(value, p); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	p.size.Store(int64(len(e.out)))
	return e.out, nil
}

// maxDepth bounds how deep values may nest; a value that holds itself ends here.
const maxDepth = 200

type encoder struct {
	version apiver.Version
	depth   int
	out     []byte
	keys    []string // of the maps that are being written, the innermost last
	entries map[*plan]*entry
}

func (e *encoder) encodeValue(v reflect.Value, p *plan) error {
	if e.depth++; e.depth > maxDepth {
		return fmt.Errorf("a value nests more than %d deep", maxDepth)
	}
	var err error
	if p.custom == notCustom {
		err = e.encodePlain(v, p)
	} else {
		err = e.encodeCustom(v, p)
	}
	e.depth--
	return err
}

// encodePlain writes a value of a type that does not encode itself.
func (e *encoder) encodePlain(v reflect.Value, p *plan) error {
	switch p.kind {
	case reflect.Bool:
		e.out = strconv.AppendBool(e.out, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.out = strconv.AppendInt(e.out, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		e.out = strconv.AppendUint(e.out, v.Uint(), 10)
	case reflect.String:
		e.out = appendString(e.out, v.String())
	case reflect.Struct:
		return e.encodeStruct(v, p)
	case reflect.Map:
		return e.encodeMap(v, p)
	case reflect.Slice, reflect.Array:
		return e.encodeList(v, p)
	case reflect.Pointer:
		if v.IsNil() {
			e.encodeNull()
			return nil
		}
		return e.encodeValue(v.Elem(), p.elem)
	case reflect.Interface:
		if v.IsNil() {
			e.encodeNull()
			return nil
		}
		return e.encodeValue(v.Elem(), plans.planOf(v.Elem().Type()))
	default:
		return fmt.Errorf("a %s has no JSON form", p.kind)
	}
	return nil
}

func (e *encoder) encodeNull() { e.out = append(e.out, "null"...) }

func (e *encoder) encodeCustom(v reflect.Value, p *plan) error {
	if (p.kind == reflect.Pointer || p.kind == reflect.Map) && v.IsNil() {
		e.encodeNull()
		return nil
	}
	if p.custom == byTime {
		if t, ok := reflect.TypeAssert[time.Time](v); ok {
			return e.encodeTime(t)
		}
	}
	raw, err := json.Marshal(v.Interface())
	e.out = append(e.out, raw...)
	return err
}

// encodeTime writes a time as encoding/json does.
func (e *encoder) encodeTime(t time.Time) (err error) {
	e.out = append(e.out, '"')
	if e.out, err = t.AppendText(e.out); err != nil {
		return err
	}
	e.out = append(e.out, '"')
	return nil
}

func (e *encoder) encodeStruct(v reflect.Value, p *plan) error {
	open := byte('{')
	for i := range p.fields {
		f := &p.fields[i]
		if !f.versions.Has(e.version) {
			continue
		}
		fv := v.Field(f.index[0])
		if len(f.index) > 1 {
			fv = v.FieldByIndex(f.index)
		}
		if f.leavesOut(e.version) && isEmpty(fv) {
			continue
		}
		e.out = append(e.out, open)
		open = ','
		e.out = append(e.out, f.key...)
		if err := e.encodeValue(fv, f.plan); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if open == '{' {
		e.out = append(e.out, '{')
	}
	e.out = append(e.out, '}')
	return nil
}

func (e *encoder) encodeMap(v reflect.Value, p *plan) error {
	if v.IsNil() {
		e.encodeNull()
		return nil
	}
	if texts, ok := reflect.TypeAssert[map[string]string](v); ok {
		e.encodeTextMap(texts)
		return nil
	}
	if v.Len() == 1 {
		return e.encodeSingleEntry(v, p)
	}
	first := len(e.keys)
	e.keys = slices.Grow(e.keys, v.Len())
	all, key := v.MapRange(), reflect.New(v.Type().Key()).Elem()
	for all.Next() {
		key.SetIterKey(all)
		e.keys = append(e.keys, key.String())
	}
	e.out = append(e.out, '{')
	for i, name := range e.sortKeys(first) {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(appendString(e.out, name), ':')
		key.SetString(name)
		if err := e.encodeValue(v.MapIndex(key), p.elem); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	e.keys = e.keys[:first]
	e.out = append(e.out, '}')
	return nil
}

// sortKeys sorts the keys of the map that is being written, which are those from first on.
func (e *encoder) sortKeys(first int) []string {
	keys := e.keys[first:]
	slices.Sort(keys)
	return keys
}

// entry is a place that the one entry of a map is read into. Those of a list's elements follow each other, and a new place
// for each is most of what their encoding takes.
type entry struct {
	key, value reflect.Value
	taken      bool // by a map that this one is part of
}

// encodeSingleEntry writes a map with one entry, as most have.
func (e *encoder) encodeSingleEntry(v reflect.Value, p *plan) error {
	at := e.entries[p]
	if at == nil || at.taken {
		at = &entry{key: reflect.New(v.Type().Key()).Elem(), value: reflect.New(v.Type().Elem()).Elem()}
		if e.entries == nil {
			e.entries = map[*plan]*entry{}
		}
		e.entries[p] = at
	}
	at.taken = true
	all := v.MapRange()
	all.Next()
	at.key.SetIterKey(all)
	at.value.SetIterValue(all)
	e.out = append(e.out, '{')
	e.out = append(appendString(e.out, at.key.String()), ':')
	if err := e.encodeValue(at.value, p.elem); err != nil {
		return fmt.Errorf("%s: %w", at.key.String(), err)
	}
	e.out = append(e.out, '}')
	at.taken = false
	return nil
}

// encodeTextMap writes the kind of map that there is most of.
func (e *encoder) encodeTextMap(m map[string]string) {
	first := len(e.keys)
	e.keys = slices.AppendSeq(slices.Grow(e.keys, len(m)), maps.Keys(m))
	e.out = append(e.out, '{')
	for i, key := range e.sortKeys(first) {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(appendString(e.out, key), ':')
		e.out = appendString(e.out, m[key])
	}
	e.keys = e.keys[:first]
	e.out = append(e.out, '}')
}

func (e *encoder) encodeList(v reflect.Value, p *plan) error {
	if v.Kind() == reflect.Slice && v.IsNil() {
		e.encodeNull()
		return nil
	}
	e.out = append(e.out, '[')
	for i := range v.Len() {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.encodeValue(v.Index(i), p.elem); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	e.out = append(e.out, ']')
	return nil
}

// isEmpty is encoding/json's notion of what omitempty leaves out.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// appendString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendString(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			// U+2028 and U+2029 end a line for readers that take JSON for JavaScript.
			if (r != utf8.RuneError || n > 1) && r != '\u2028' && r != '\u2029' {
				i += n
				continue
			}
			out = append(out, s[from:i]...)
			if size = n; r == utf8.RuneError {
				out = append(out, "\\ufffd"...)
			} else {
				out = append(out, "\\u202"...)
				out = append(out, hex[r&0xf])
			}
		} else {
			out = append(out, s[from:i]...)
			switch c {
			case '"', '\\':
				out = append(out, '\\', c)
			case '\b':
				out = append(out, '\\', 'b')
			case '\f':
				out = append(out, '\\', 'f')
			case '\n':
				out = append(out, '\\', 'n')
			case '\r':
				out = append(out, '\\', 'r')
			case '\t':
				out = append(out, '\\', 't')
			default:
				out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
			}
		}
		i += size
		from = i
	}
	out = append(out, s[from:]...)
	return append(out, '"')
}

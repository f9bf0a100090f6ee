package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Value decodes JSON for templates: whole numbers become int64, so that {{eq .State.ExitCode 0}} works and sizes are
// not written with exponents.
func Value(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	return convertNumbers(value), nil
}

func convertNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			value[key] = convertNumbers(item)
		}
		return value
	case []any:
		for i, item := range value {
			value[i] = convertNumbers(item)
		}
		return value
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		if fraction, err := value.Float64(); err == nil {
			return fraction
		}
		return value.String()
	default:
		return value
	}
}

// Records writes records as an indented JSON array, or each through a template.
func Records(w io.Writer, format string, records []json.RawMessage) error {
	if format != "" {
		template, err := ParseTemplate(format)
		if err != nil {
			return err
		}
		for _, raw := range records {
			value, err := Value(raw)
			if err != nil {
				return err
			}
			if err := template.Write(w, value); err != nil {
				return err
			}
		}
		return nil
	}
	// The array is put together by hand: encoding/json would write < and > as escapes.
	raw := slices.Concat([]byte("["), bytes.Join(asBytes(records), []byte(",")), []byte("]"))
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "    "); err != nil {
		return fmt.Errorf("indent records: %w", err)
	}
	out.WriteByte('\n')
	_, err := out.WriteTo(w)
	return err
}

func asBytes(records []json.RawMessage) [][]byte {
	parts := make([][]byte, 0, len(records))
	for _, record := range records {
		parts = append(parts, record)
	}
	return parts
}

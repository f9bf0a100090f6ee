package compat_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/api/compat"
	"moss/engine/fault"
)

func TestYes(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "0": false, "no": false, "No": false, "false": false, "FALSE": false, "none": false, "\tnone": false,
		"1": true, "true": true, "True": true, "yes": true, "2": true, "off": true, "-0": true, "x": true,
	} {
		if got := compat.Yes(text); got != want {
			t.Errorf("Yes(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestFilters(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want map[string][]string
		bad  bool
	}{
		{in: "", want: map[string][]string{}},
		{in: "{}", want: map[string][]string{}},
		{in: "null", want: map[string][]string{}},
		{in: `{"label":["a=b","c"]}`, want: map[string][]string{"label": {"a=b", "c"}}},
		{in: `{"label":{"a=b":true,"c":false}}`, want: map[string][]string{"label": {"a=b"}}},
		{in: `{"label":null}`, want: map[string][]string{"label": nil}},
		{in: `{"label":"a"}`, bad: true},
		{in: `{"label":[1]}`, bad: true},
		{in: `["a"]`, bad: true},
		{in: `{"a":[]} x`, bad: true},
		{in: `label=a`, bad: true},
	} {
		got, err := compat.Filters(tc.in)
		if tc.bad != (err != nil) || err == nil && !reflect.DeepEqual(got, tc.want) {
			t.Errorf("Filters(%q) = %v, %v, want %v, error %v", tc.in, got, err, tc.want, tc.bad)
		}
		if err != nil && (!fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "Go value")) {
			t.Errorf("Filters(%q) = %v, want an invalid fault in the client's words", tc.in, err)
		}
	}
}

func TestError(t *testing.T) {
	const text = "no such thing: \"x\"\n\xff"
	for minor := uint16(18); minor <= 24; minor++ {
		mediaType, body := compat.Error(apiver.New(1, minor), text)
		if minor < 24 {
			if mediaType != "text/plain; charset=utf-8" || string(body) != text+"\n" {
				t.Errorf("Error at 1.%d = %s, %q, want plain text with a newline", minor, mediaType, body)
			}
			continue
		}
		var message map[string]string
		if err := json.Unmarshal(body, &message); err != nil || mediaType != "application/json" || len(message) != 1 ||
			!strings.HasPrefix(message["message"], "no such thing: \"x\"\n") || body[len(body)-1] != '\n' {
			t.Errorf("Error at 1.%d = %s, %q, %v, want JSON with a message and a newline", minor, mediaType, body, err)
		}
	}
}

func TestStreamError(t *testing.T) {
	for _, tc := range []struct {
		code int
		want string
	}{
		{0, `{"errorDetail":{"message":"full"},"error":"full"}`},
		{3, `{"errorDetail":{"code":3,"message":"full"},"error":"full"}`},
	} {
		if got := string(compat.StreamError(tc.code, "full")); got != tc.want+"\n" {
			t.Errorf("StreamError(%d) = %q, want %q and a newline", tc.code, got, tc.want)
		}
	}
}

func FuzzYes(f *testing.F) {
	f.Add("none")
	f.Add("\u0130")
	f.Fuzz(func(t *testing.T, text string) {
		if compat.Yes(text) != compat.Yes(" "+text+"\t") {
			t.Fatalf("Yes(%q) depends on blanks around it", text)
		}
	})
}

func FuzzFilters(f *testing.F) {
	f.Add(`{"label":["a"],"b":{"c":true}}`)
	f.Add(`{"a":null}`)
	f.Fuzz(func(t *testing.T, in string) {
		if _, err := compat.Filters(in); err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("Filters(%q) = %v, want an invalid fault", in, err)
		}
	})
}

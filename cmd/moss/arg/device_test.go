package arg_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"moss/cmd/moss/arg"
)

func TestLink(t *testing.T) {
	for text, want := range map[string]string{
		"db": "db:db", "db:www": "db:www", "/db": "db:db", "/db:/www": "db:www", "": "!", ":a": "!", "a:": "!", "a:b:c": "!", "/": "!",
	} {
		got, err := arg.Link(text)
		if (err != nil) != (want == "!") || err == nil && got != want {
			t.Errorf("Link(%q) = %q, %v, want %s", text, got, err, want)
		}
	}
}

func TestDeviceValue(t *testing.T) {
	for text, want := range map[string]string{
		"/dev/sda:1mb": "/dev/sda 1mb", "/dev/disk/by-id/a:b:5": "/dev/disk/by-id/a:b 5", "/dev/sda": "!", "/dev/sda:": "!", "sda:5": "!", "": "!",
	} {
		path, value, err := arg.DeviceValue("device-read-bps", text)
		if (err != nil) != (want == "!") || err == nil && path+" "+value != want {
			t.Errorf("DeviceValue(%q) = %q, %q, %v, want %s", text, path, value, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "device-read-bps ") {
			t.Errorf("DeviceValue(%q) = %v, want the flag's name in it", text, err)
		}
	}
}

func TestIsDeviceName(t *testing.T) {
	for text, want := range map[string]bool{
		"aa.com/gpu=0": true, "aa/b=c:d": true, "/dev/null": false, "/dev/a=b": false, "aa.com/gpu": false, "aa.com/=0": false,
		"aa.com/gpu=": false, "gpu=0": false, "": false,
	} {
		if got := arg.IsDeviceName(text); got != want {
			t.Errorf("IsDeviceName(%q) = %t, want %t", text, got, want)
		}
	}
}

func TestDeviceRule(t *testing.T) {
	for text, want := range map[string]bool{
		"c 1:3 mr": true, "b *:* rwm": true, "a 10:* w": true, "x 1:3 r": false, "c 1 r": false, "c 1:3": false, "c 1:3 rwmr": false,
		"": false, "c 1:3 r\n": false,
	} {
		if err := arg.DeviceRule(text); (err == nil) != want {
			t.Errorf("DeviceRule(%q) = %v, want it to pass: %t", text, err, want)
		}
	}
}

// TestGPUs has what docker 28.2 sends.
func TestGPUs(t *testing.T) {
	for text, want := range map[string]string{
		"all":                      `{"Driver":"","Count":-1,"DeviceIDs":null,"Capabilities":[["gpu"]],"Options":{}}`,
		"2":                        `{"Driver":"","Count":2,"DeviceIDs":null,"Capabilities":[["gpu"]],"Options":{}}`,
		"device=0":                 `{"Driver":"","Count":0,"DeviceIDs":["0"],"Capabilities":[["gpu"]],"Options":{}}`,
		`"device=0,1"`:             `{"Driver":"","Count":0,"DeviceIDs":["0","1"],"Capabilities":[["gpu"]],"Options":{}}`,
		"all,device=0":             `{"Driver":"","Count":-1,"DeviceIDs":["0"],"Capabilities":[["gpu"]],"Options":{}}`,
		`driver=x,"options=a=b,c"`: `{"Driver":"x","Count":1,"DeviceIDs":null,"Capabilities":[["gpu"]],"Options":{"a":"b","c":""}}`,
		`count=2,driver=nvidia,"capabilities=compute,utility"`: `{"Driver":"nvidia","Count":2,"DeviceIDs":null,` +
			`"Capabilities":[["compute","utility","gpu"]],"Options":{}}`,
		"": "!", "x": "!", "count=x": "!", "a=b": "!", "count=1,count=2": "!", "1,2": "!", "options=": "!", "options==a": "!", `"`: "!",
	} {
		request, err := arg.GPUs(text)
		if (err != nil) != (want == "!") {
			t.Errorf("GPUs(%q) = %v, want %s", text, err, want)
		}
		if got, marshalled := json.Marshal(request); err == nil && (marshalled != nil || string(got) != want) {
			t.Errorf("GPUs(%q) = %s, %v, want %s", text, got, marshalled, want)
		}
	}
}

func TestPairs(t *testing.T) {
	got, err := arg.Pairs("opt", []string{"a=1", "b=", "a=c=d"})
	if err != nil || !maps.Equal(got, map[string]string{"a": "c=d", "b": ""}) {
		t.Errorf("Pairs = %v, %v", got, err)
	}
	if got, err := arg.Pairs("opt", nil); got != nil || err != nil {
		t.Errorf("Pairs of nothing = %v, %v, want nil", got, err)
	}
	if _, err := arg.Pairs("opt", []string{"a"}); err == nil {
		t.Error("a pair without = passes")
	}
}

func TestCount(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "17": 17, "-1": -1, "x": -1, "": -1} {
		got, err := arg.Count("tail", text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("Count(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

package arg_test

import (
	"slices"
	"strings"
	"testing"

	"moss/api/types"
	"moss/cmd/moss/arg"
)

func TestNanoCPUs(t *testing.T) {
	for text, want := range map[string]int64{"1.5": 1_500_000_000, "0": 0, "0.000000001": 1, "16": 16_000_000_000, ".5": 500_000_000} {
		if got, err := arg.NanoCPUs(text); got != want || err != nil {
			t.Errorf("NanoCPUs(%s) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1/2", "1e3", "0.0000000001", "99999999999999999999"} {
		if got, err := arg.NanoCPUs(text); err == nil || !strings.HasPrefix(err.Error(), "cpus ") {
			t.Errorf("NanoCPUs(%s) = %d, %v, want an error", text, got, err)
		}
	}
}

func TestHostLine(t *testing.T) {
	for text, want := range map[string]string{"db:10.0.0.9": "10.0.0.9 db", "db:fd00::9": "fd00::9 db", "db:[fd00::9]": "fd00::9 db"} {
		if got, err := arg.HostLine(text); got != want || err != nil {
			t.Errorf("HostLine(%s) = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "db", ":10.0.0.9", "db:x", "a b:10.0.0.9", "unix:///run/x"} {
		if got, err := arg.HostLine(text); err == nil || !strings.Contains(err.Error(), "want NAME:IP") {
			t.Errorf("HostLine(%s) = %q, %v, want an error", text, got, err)
		}
	}
}

func TestServicePort(t *testing.T) {
	for text, want := range map[string]types.ServicePort{
		"80":          {TargetPort: 80},
		"8080:80":     {TargetPort: 80, PublishedPort: 8080},
		"8080:53/udp": {TargetPort: 53, PublishedPort: 8080, Protocol: "udp"},
		"published=8080,target=80,protocol=TCP,name=web,mode=ingress": {TargetPort: 80, PublishedPort: 8080, Protocol: "tcp", Name: "web", PublishMode: "ingress"},
	} {
		if got, err := arg.ServicePort(text); got != want || err != nil {
			t.Errorf("ServicePort(%s) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "0", "65536", "x:80", "80:", "published=80", "target=x", "published=x,target=1", "mode=host,target=1", "what=1,target=1"} {
		if got, err := arg.ServicePort(text); err == nil || !strings.HasPrefix(err.Error(), "publish ") {
			t.Errorf("ServicePort(%s) = %+v, %v, want an error", text, got, err)
		}
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "  ": nil, "a": {"a"}, " a  b\tc ": {"a", "b", "c"}, `sh -c 'a "b" c'`: {"sh", "-c", `a "b" c`},
		`a "" b`: {"a", "", "b"}, `"a\"b"`: {`a"b`}, `a\ b c`: {"a b", "c"}, `'a\b'c`: {`a\bc`},
	} {
		if got, err := arg.Words(text); !slices.Equal(got, want) || err != nil {
			t.Errorf("Words(%s) = %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`"a`, `'a`, `a\`} {
		if got, err := arg.Words(text); err == nil {
			t.Errorf("Words(%s) = %q, want an error", text, got)
		}
	}
}

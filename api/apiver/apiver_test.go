package apiver_test

import (
	"reflect"
	"strings"
	"testing"

	"moss/api/apiver"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want apiver.Version
		bad  bool
	}{
		{in: "1.24", want: apiver.New(1, 24)},
		{in: "1.18", want: apiver.Min},
		{in: "0.0", want: 0},
		{in: "2.0", want: apiver.New(2, 0)},
		{in: "1.65535", want: apiver.New(1, 65535)},
		{in: "", bad: true},
		{in: "1", bad: true},
		{in: "1.", bad: true},
		{in: ".24", bad: true},
		{in: "1.024", bad: true},
		{in: "+1.24", bad: true},
		{in: "1.-4", bad: true},
		{in: " 1.24", bad: true},
		{in: "1.24.1", bad: true},
		{in: "1.65536", bad: true},
		{in: "v1.24", bad: true},
		{in: "1.2४", bad: true},
	} {
		got, err := apiver.Parse(tc.in)
		if (err != nil) != tc.bad || got != tc.want {
			t.Errorf("Parse(%q) = %v, %v, want %v, error %v", tc.in, got, err, tc.want, tc.bad)
		}
		if err == nil && got.String() != tc.in {
			t.Errorf("Parse(%q).String() = %q", tc.in, got.String())
		}
	}
	if apiver.New(1, 9) >= apiver.New(1, 10) {
		t.Error("1.9 is not before 1.10")
	}
}

func TestRange(t *testing.T) {
	v := func(minor uint16) apiver.Version { return apiver.New(1, minor) }
	for _, tc := range []struct {
		in      string
		in18    bool
		in20    bool
		in24    bool
		in30    bool
		refused bool
	}{
		{in: "", in18: true, in20: true, in24: true, in30: true},
		{in: "1.20-", in20: true, in24: true, in30: true},
		{in: "-1.20", in18: true, in20: true},
		{in: "1.20-1.24", in20: true, in24: true},
		{in: "1.24", in24: true},
		{in: "1.24-1.20", refused: true},
		{in: "-", refused: true},
		{in: "x-1.20", refused: true},
		{in: "1.20-x", refused: true},
	} {
		r, err := apiver.ParseRange(tc.in)
		if (err != nil) != tc.refused {
			t.Errorf("ParseRange(%q) error = %v, want refused %v", tc.in, err, tc.refused)
		}
		if err != nil {
			continue
		}
		for minor, want := range map[uint16]bool{18: tc.in18, 20: tc.in20, 24: tc.in24, 30: tc.in30} {
			if got := r.Has(v(minor)); got != want {
				t.Errorf("ParseRange(%q).Has(%v) = %v, want %v", tc.in, v(minor), got, want)
			}
		}
		if r.String() != tc.in {
			t.Errorf("ParseRange(%q).String() = %q", tc.in, r.String())
		}
	}
}

func TestParseAlways(t *testing.T) {
	for _, tc := range []struct {
		tag        reflect.StructTag
		in24, in25 bool
		refused    bool
	}{
		{tag: `always:"1.25-"`, in25: true},
		{tag: `always:""`, in24: true, in25: true},
		{tag: `api:"1.18-"`},
		{tag: `always:"x"`, refused: true},
	} {
		r, err := apiver.ParseAlways(tc.tag)
		if (err != nil) != tc.refused {
			t.Errorf("ParseAlways(%s) error = %v, want refused %v", tc.tag, err, tc.refused)
		}
		if has24, has25 := r.Has(apiver.New(1, 24)), r.Has(apiver.New(1, 25)); err == nil && (has24 != tc.in24 || has25 != tc.in25) {
			t.Errorf("ParseAlways(%s) has 1.24: %v, 1.25: %v, want %v and %v", tc.tag, has24, has25, tc.in24, tc.in25)
		}
	}
}

func TestServed(t *testing.T) {
	for _, tc := range []struct {
		first, last, want, fails string
	}{
		{want: "1.18-1.51"},
		{first: "1.20", want: "1.20-1.51"},
		{last: "1.22", want: "1.18-1.22"},
		{first: "1.21", last: "1.21", want: "1.21"},
		{first: "1.22", last: "1.20", fails: "1.22 is above the last, 1.20"},
		{first: "1.17", fails: "1.17 is not there: moss has 1.18 to 1.51"},
		{last: "1.51", want: "1.18-1.51"},
		{last: "1.52", fails: "1.52 is not there"},
		{first: "1.52", last: "1.52", fails: "1.52 is not there"},
		{last: "v1.24", fails: "has the form 1.24"},
		{first: "x", fails: "has the form 1.24"},
	} {
		got, err := apiver.Served(tc.first, tc.last)
		if tc.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("Served(%q, %q) = %v, %v, want %q", tc.first, tc.last, got, err, tc.fails)
			}
			continue
		}
		if err != nil || got.String() != tc.want {
			t.Errorf("Served(%q, %q) = %v, %v, want %s", tc.first, tc.last, got, err, tc.want)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"", "1.20-", "-1.20", "1.20-1.24", "1.24", "-", "1.1-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := apiver.ParseRange(s)
		if err != nil {
			return
		}
		again, err := apiver.ParseRange(r.String())
		if err != nil || again != r {
			t.Fatalf("ParseRange(%q) = %v, and %q again gives %v, %v", s, r, r.String(), again, err)
		}
	})
}

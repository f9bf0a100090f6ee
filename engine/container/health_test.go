package container

import (
	"reflect"
	"testing"
	"time"

	"moss/engine/image"
)

func TestHealthCheckMerges(t *testing.T) {
	theirs := &image.Healthcheck{
		Test: []string{"CMD-SHELL", "image-check"}, Interval: 7 * time.Second, Timeout: 8 * time.Second,
		StartPeriod: 9 * time.Second, StartInterval: 6 * time.Second, Retries: 4,
	}
	for _, tc := range []struct {
		name  string
		own   *image.Healthcheck
		img   *image.Healthcheck
		shell []string
		want  HealthCheck
		none  bool
	}{
		{name: "none at all", none: true},
		{name: "the image's", img: theirs, want: HealthCheck{
			[]string{"/bin/sh", "-c", "image-check"}, 7 * time.Second, 8 * time.Second, 9 * time.Second, 6 * time.Second, 4,
		}},
		{name: "turned off", own: &image.Healthcheck{Test: []string{"NONE"}}, img: theirs, none: true},
		{
			name: "empty test inherits, fields replace one by one", img: theirs, own: &image.Healthcheck{Interval: time.Second, Retries: 1},
			want: HealthCheck{[]string{"/bin/sh", "-c", "image-check"}, time.Second, 8 * time.Second, 9 * time.Second, 6 * time.Second, 1},
		},
		{
			name: "own command, periods of the image", img: theirs, own: &image.Healthcheck{Test: []string{"CMD", "/own", "-x"}},
			want: HealthCheck{[]string{"/own", "-x"}, 7 * time.Second, 8 * time.Second, 9 * time.Second, 6 * time.Second, 4},
		},
		{
			name: "defaults", own: &image.Healthcheck{Test: []string{"CMD", "/own"}},
			want: HealthCheck{[]string{"/own"}, 30 * time.Second, 30 * time.Second, 0, 5 * time.Second, 3},
		},
		{name: "the image's shell", img: theirs, shell: []string{"/bin/ash", "-ec"}, want: HealthCheck{
			[]string{"/bin/ash", "-ec", "image-check"}, 7 * time.Second, 8 * time.Second, 9 * time.Second, 6 * time.Second, 4,
		}},
		{name: "periods without a command", own: &image.Healthcheck{Interval: time.Second}, none: true},
		{name: "a wrong one of the image", img: &image.Healthcheck{Test: []string{"RUN", "x"}}, none: true},
		{
			name: "a wrong period of the image", img: &image.Healthcheck{Test: []string{"CMD", "x"}, Interval: 3, Retries: -2},
			want: HealthCheck{[]string{"x"}, 30 * time.Second, 30 * time.Second, 0, 5 * time.Second, 3},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec, _, err := NewSpec(Config{Cmd: []string{"sh"}, Healthcheck: tc.own}, HostConfig{}, nil,
				image.Config{Healthcheck: tc.img, Shell: tc.shell})
			if err != nil {
				t.Fatal(err)
			}
			got, ok := HealthCheckOf(&spec.Config)
			if ok == tc.none || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("HealthCheckOf = %+v, %v, want %+v, %v", got, ok, tc.want, !tc.none)
			}
			if h := NewHealth(&spec.Config); (h == nil) != tc.none || h != nil && h.Status != HealthStarting {
				t.Errorf("NewHealth = %+v, want one that is starting: %v", h, !tc.none)
			}
		})
	}
	if theirs.Interval != 7*time.Second || theirs.Retries != 4 {
		t.Errorf("merging changed the image's health check to %+v", theirs)
	}
}

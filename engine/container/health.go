package container

import (
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

// The states of health (docker-compatible words; the documents name the event only).
const (
	HealthStarting  = "starting"  // no check has succeeded yet, and not enough have failed
	HealthHealthy   = "healthy"   // the last checks did not make it unhealthy
	HealthUnhealthy = "unhealthy" // as many checks in a row as Retries have failed
	HealthNone      = "none"      // there is no check; a word of filters only
)

// Health is what is known of the health of a container that has a check.
type Health struct {
	Status        string
	FailingStreak int            // failed checks since the last good one
	Log           []HealthResult // the last few, oldest first
}

// HealthResult is the outcome of one check.
type HealthResult struct {
	Start    time.Time
	End      time.Time
	ExitCode int // -1 when the check itself could not be carried out, or took too long
	Output   string
}

// HealthCheck is a container's check with all defaults filled in.
type HealthCheck struct {
	Args          []string // the command; never empty
	Interval      time.Duration
	Timeout       time.Duration
	StartPeriod   time.Duration // while it lasts, failures of a starting container do not count
	StartInterval time.Duration // in place of Interval while a starting container has its StartPeriod
	Retries       int
}

// Defaults of a health check that sets nothing else.
const (
	defaultHealthInterval = 30 * time.Second
	defaultHealthTimeout  = 30 * time.Second
	defaultHealthRetries  = 3

	defaultStartInterval = 5 * time.Second // but no longer than the interval
)

// The first words of Healthcheck.Test (API document 1, 2.2).
const (
	healthOff   = "NONE"
	healthExec  = "CMD"
	healthShell = "CMD-SHELL"
)

// minHealthPeriod is the shortest duration of a health check that is not "inherit" (API document 3, section 8).
const minHealthPeriod = time.Millisecond

// HealthCheckOf returns the check that a container's merged configuration asks for; false if there is none.
func HealthCheckOf(cfg *Config) (HealthCheck, bool) {
	asked := cfg.Healthcheck
	if asked == nil || len(asked.Test) < 2 || asked.Test[0] == healthOff {
		return HealthCheck{}, false
	}
	check := HealthCheck{
		Args: asked.Test[1:], Interval: defaultHealthInterval, Timeout: defaultHealthTimeout,
		StartPeriod: asked.StartPeriod, Retries: defaultHealthRetries,
	}
	if asked.Test[0] == healthShell {
		shell := cfg.Shell
		if len(shell) == 0 {
			shell = []string{"/bin/sh", "-c"}
		}
		check.Args = append(append([]string{}, shell...), asked.Test[1:]...)
	}
	if asked.Interval > 0 {
		check.Interval = asked.Interval
	}
	check.StartInterval = min(defaultStartInterval, check.Interval)
	if asked.StartInterval > 0 {
		check.StartInterval = asked.StartInterval
	}
	if asked.Timeout > 0 {
		check.Timeout = asked.Timeout
	}
	if asked.Retries > 0 {
		check.Retries = asked.Retries
	}
	return check, true
}

// Pause is the time from the end of one check to the start of the next, at a moment.
func (c *HealthCheck) Pause(h *Health, startedAt, now time.Time) time.Duration {
	if h.Status == HealthStarting && now.Sub(startedAt) < c.StartPeriod {
		return c.StartInterval
	}
	return c.Interval
}

// NewHealth is the health of a container that starts; nil if it has no check.
func NewHealth(cfg *Config) *Health {
	if _, ok := HealthCheckOf(cfg); !ok {
		return nil
	}
	return &Health{Status: HealthStarting}
}

// mergeHealth fills what the client's health check leaves open from the image's, field by field (API document 1, 2.2). What
// an image gets wrong is left out: it is not the client's fault.
func (d *draft) mergeHealth() {
	if d.img.Healthcheck == nil {
		return
	}
	merged := *d.img.Healthcheck
	if err := checkHealthTest(merged.Test); err != nil {
		d.addWarning("The image's health check is left out: %v.", err)
		merged.Test = nil
	}
	for _, period := range healthPeriods(&merged) {
		if *period.value != 0 && *period.value < minHealthPeriod {
			d.addWarning("The image's health check has a wrong %s, which is left out: %s.", period.field, *period.value)
			*period.value = 0
		}
	}
	merged.Retries = max(merged.Retries, 0)
	if own := d.Config.Healthcheck; own != nil {
		if len(own.Test) > 0 {
			merged.Test = own.Test
		}
		theirs := healthPeriods(own)
		for i, period := range healthPeriods(&merged) {
			if *theirs[i].value != 0 {
				*period.value = *theirs[i].value
			}
		}
		if own.Retries != 0 {
			merged.Retries = own.Retries
		}
	}
	d.Config.Healthcheck = &merged
}

// healthPeriod is one duration of a health check.
type healthPeriod struct {
	field string
	value *time.Duration
}

func healthPeriods(h *image.Healthcheck) []healthPeriod {
	return []healthPeriod{
		{"Interval", &h.Interval}, {"Timeout", &h.Timeout}, {"StartPeriod", &h.StartPeriod}, {"StartInterval", &h.StartInterval},
	}
}

// checkHealth keeps the limits of a merged health check (API document 3, section 8).
func checkHealth(d *draft) error {
	if d.Config.Healthcheck == nil {
		return nil
	}
	return CheckHealthcheck(d.Config.Healthcheck)
}

// CheckHealthcheck returns why no container can have a health check, nil if one can. The error is fault.Invalid.
func CheckHealthcheck(asked *image.Healthcheck) error {
	for _, period := range healthPeriods(asked) {
		if v := *period.value; v != 0 && v < minHealthPeriod {
			return fault.Invalid("%s in Healthcheck cannot be less than one millisecond: %s", period.field, v)
		}
	}
	if asked.Retries < 0 {
		return fault.Invalid("Retries in Healthcheck cannot be negative: %d", asked.Retries)
	}
	return checkHealthTest(asked.Test)
}

// checkHealthTest checks the command of a health check.
func checkHealthTest(test []string) error {
	if len(test) == 0 {
		return nil // inherit, or nothing to inherit
	}
	switch test[0] {
	case healthOff:
		return nil
	case healthExec, healthShell:
		if len(test) < 2 || test[1] == "" {
			return fault.Invalid("Test in Healthcheck has no command after %s", test[0])
		}
		return CheckArgs("Test in Healthcheck", test)
	default:
		return fault.Invalid("Unknown type %q in Healthcheck.Test, only NONE, CMD and CMD-SHELL are allowed", test[0])
	}
}

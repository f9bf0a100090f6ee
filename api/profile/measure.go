package profile

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"

	"moss/engine/fault"
)

const (
	// longest bounds a measurement: a client that is forgotten does not slow the engine down for ever.
	longest = 300 * time.Second
	// usualProfile and usualTrace are how long is measured if the client does not say, as in net/http/pprof: a trace has
	// megabytes for each second.
	usualProfile, usualTrace = 30 * time.Second, time.Second
	// blockRate samples one blocking event for so many nanoseconds spent blocked, mutexFraction one contention of so many.
	blockRate, mutexFraction = 10_000, 10
	// readPatience is how long beyond the measurement a client of a trace may take to read it: meanwhile the runtime keeps
	// in memory what is not read.
	readPatience = 30 * time.Second
)

// parseSpan returns how long is to be measured, 0 for what is known at once. A span of which there is no use and one that
// is not allowed are fault.Invalid.
func parseSpan(kind string, query url.Values) (time.Duration, error) {
	usual := usualProfile
	given := query.Get("seconds")
	switch kind {
	case kindCPU, kindBlock, kindMutex:
	case kindTrace:
		usual = usualTrace
	default:
		if given != "" {
			return 0, fault.Invalid("a %s takes no seconds: get two and compare them with go tool pprof -base", kindName(kind))
		}
		return 0, nil
	}
	if given == "" {
		return usual, nil
	}
	seconds, err := strconv.ParseFloat(given, 64)
	if err != nil || !(seconds > 0 && seconds <= longest.Seconds()) { // NaN is neither
		return 0, fault.Invalid("invalid value for seconds: got %q, want a number above 0, at most %.0f", given, longest.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// parseNumber returns a parameter that is a small number, 0 if it is missing.
func parseNumber(query url.Values, name string) (int, error) {
	given := query.Get(name)
	if given == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(given, 10, 8)
	if err != nil {
		return 0, fault.Invalid("invalid value for %s: got %q, want a number", name, given)
	}
	return int(n), nil
}

// measureCPU writes where the engine spends its time during span.
func (h *Handler) measureCPU(ctx context.Context, out *bytes.Buffer, span time.Duration) error {
	release, err := h.reserveKind(kindCPU)
	if err != nil {
		return err
	}
	defer release()
	if err := pprof.StartCPUProfile(out); err != nil {
		return errBusy(kindCPU)
	}
	defer pprof.StopCPUProfile() // harmless the second time
	if err := waitSpan(ctx, span); err != nil {
		return err
	}
	pprof.StopCPUProfile() // which writes it
	return nil
}

// writeCounted writes a profile that the runtime keeps. Blocking and contention are counted during span only: that costs.
func (h *Handler) writeCounted(ctx context.Context, out *bytes.Buffer, kind string, debug int, collect bool,
	span time.Duration,
) error {
	counted := pprof.Lookup(kind)
	if counted == nil {
		return fault.NotFound("there is no profile %q: %s/ lists them", kind, root)
	}
	var err error
	switch {
	case kind == kindBlock:
		err = h.sampleEvents(ctx, kind, span, runtime.SetBlockProfileRate, blockRate)
	case kind == kindMutex:
		err = h.sampleEvents(ctx, kind, span, func(n int) { runtime.SetMutexProfileFraction(n) }, mutexFraction)
	case kind == "heap" && collect:
		runtime.GC()
	}
	if err != nil {
		return err
	}
	return counted.WriteTo(out, debug)
}

// sampleEvents sets a rate for the time of span. What was counted before stays counted.
func (h *Handler) sampleEvents(ctx context.Context, kind string, span time.Duration, set func(rate int), rate int) error {
	release, err := h.reserveKind(kind)
	if err != nil {
		return err
	}
	defer release()
	set(rate)
	defer set(0)
	return waitSpan(ctx, span)
}

// streamTrace writes what the scheduler does during span, as it happens. One that is cut off breaks the answer off.
func (h *Handler) streamTrace(ctx context.Context, w http.ResponseWriter, span time.Duration) error {
	release, err := h.reserveKind(kindTrace)
	if err != nil {
		return err
	}
	defer release()
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(span + readPatience)); err != nil {
		return err
	}
	defer control.SetWriteDeadline(time.Time{}) //nolint:errcheck // it was possible just before
	setHead(w.Header(), kindTrace, false)
	if err := trace.Start(w); err != nil {
		w.Header().Del("Content-Disposition")
		return errBusy(kindTrace)
	}
	cut := waitSpan(ctx, span)
	trace.Stop() // returns when all of it is written
	if cut != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// waitSpan returns after span, or earlier with the error of ctx.
func waitSpan(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

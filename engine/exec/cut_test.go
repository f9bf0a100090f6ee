package exec

import (
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/fault"
)

// TestClientsCutOff: a client that the end of an engine cuts off asks once for the exit code, and gets that or an error.
func TestClientsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		attached, detached := mustCreate(t, s, Config{Tty: true, AttachStdin: true, AttachStdout: true, DetachKeys: "a,b"}), mustCreate(t, s, Config{AttachStdout: true})
		if err := s.Start(t.Context(), attached, StartOptions{Raw: true}, newConn("ab").open); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context(), detached, StartOptions{Detach: true}, nil); err != nil {
			t.Fatal(err)
		}
		for _, execID := range []string{attached, detached} {
			if info, err := s.InspectEnd(t.Context(), execID); err != nil || !info.Running || info.Cut {
				t.Errorf("InspectEnd in the first engine = %+v, %v, want it running", info, err)
			}
		}
		s.end() // as a crash
		s.background.Wait()

		next := w.service()
		if info, err := next.InspectEnd(t.Context(), detached); err != nil || !info.Running || info.Cut {
			t.Errorf("InspectEnd of the detached one = %+v, %v, want it running", info, err)
		}
		began := time.Now()
		if info, err := next.InspectEnd(t.Context(), attached); !fault.Is(err, fault.Internal) || time.Since(began) != cutWait {
			t.Errorf("InspectEnd of the attached one = %+v, %v after %s, want a failure", info, err, time.Since(began))
		}
		in, err := next.findInstance(attached)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { in.process.Signal(t.Context(), 7) }) //nolint:errcheck // it runs
		info, err := next.InspectEnd(t.Context(), attached)
		if err != nil || info.ExitCode == nil || info.Running || !info.Cut {
			t.Fatalf("InspectEnd that waits for the end = %+v, %v, want an exit code", info, err)
		}
		if *info.ExitCode != 128+7 {
			t.Errorf("exit code %d, want that of signal 7", *info.ExitCode)
		}
	})
}

package token

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestRevokedRefreshTokens(t *testing.T) {
	both := ann
	both.IdentityToken = "identity"
	for _, tc := range []struct {
		name    string
		auth    image.RegistryAuth
		revoked []string
		want    string
		fails   bool
	}{
		{"ours: the password", ann, []string{"refresh"}, "POST password, POST refresh_token, POST password", false},
		{"the client's and no password", identity, []string{"identity"}, "POST refresh_token", true},
		{"the client's: the password", both, []string{"identity"}, "POST refresh_token, POST password, POST refresh_token", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{answer: refuses(tc.revoked...)}
			svc := New()
			_, err := svc.Token(t.Context(), request(s, tc.auth, "repository:a:pull"))
			if err == nil {
				_, err = svc.Token(t.Context(), request(s, tc.auth, "repository:b:pull"))
			}
			if (err != nil) != tc.fails || (tc.fails && !fault.Is(err, fault.Unauthorized)) {
				t.Errorf("Token: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "identity") {
				t.Errorf("the error shows the token: %v", err)
			}
			if got := grants(s.requests()); got != tc.want {
				t.Errorf("requests: %s; want %s", got, tc.want)
			}
		})
	}
}

func TestRenewedRefreshTokenIsUsed(t *testing.T) {
	s := &server{}
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		gives(w, 200, object{"access_token": "t", "refresh_token": r.Form.Get("refresh_token") + "+"})
	}
	svc := New()
	for i, want := range []string{"identity", "identity+", "identity++"} {
		get(t, svc, request(s, identity, fmt.Sprint("scope", i)))
		if got := s.requests()[0].params.Get("refresh_token"); got != want {
			t.Errorf("refresh token %d is %q, want %q", i, got, want)
		}
	}
}

func TestIdentityTokenGoesToItsIssuerOnly(t *testing.T) {
	s := &server{answer: numbered(300)}
	svc := New()
	get(t, svc, request(s, identity, "repository:a:pull"))
	s.requests()
	r := request(s, identity, "repository:a:pull")
	r.Challenge.Params["realm"] = "https://evil.example/token"
	_, err := svc.Token(t.Context(), r)
	if !fault.Is(err, fault.Unauthorized) || !strings.Contains(err.Error(), "log in again") {
		t.Errorf("another server: %v, want unauthorized", err)
	}
	want(t, s)

	// A server that does not know the form cannot use it.
	s.answer = func(w http.ResponseWriter, r *http.Request) { gives(w, 404, nil) }
	_, err = New().Token(t.Context(), request(s, identity, ""))
	if !fault.Is(err, fault.Unauthorized) || !strings.Contains(err.Error(), "takes no identity tokens") {
		t.Errorf("a server of the old form: %v, want unauthorized", err)
	}
}

func TestTokensAreRenewedBeforeTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: numbered(60)}
		svc := New()
		r := request(s, nobody, "repository:a:pull")
		for _, step := range []struct {
			wait time.Duration
			want string
		}{{0, "t1"}, {49 * time.Second, "t1"}, {2 * time.Second, "t2"}, {49 * time.Second, "t2"}} {
			time.Sleep(step.wait)
			token := get(t, svc, r)
			if string(token.Value) != step.want || time.Until(token.Expires) < early {
				t.Errorf("after %s more: %s for %s, want %s", step.wait, string(token.Value), time.Until(token.Expires), step.want)
			}
		}
	})
}

func TestRefusedTokenIsNotGivenAgain(t *testing.T) {
	s := &server{answer: numbered(300)}
	svc := New()
	r := request(s, nobody, "repository:a:pull")
	r.Refused = get(t, svc, r).Value
	if token := get(t, svc, r); string(token.Value) != "t2" {
		t.Errorf("token %s, want a new one", string(token.Value))
	}
	if token := get(t, svc, r); string(token.Value) != "t2" {
		t.Errorf("token %s: the new one was not refused", string(token.Value))
	}
}

func TestEqualRequestsAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		next := numbered(300)
		s := &server{answer: func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
				next(w, r)
			case <-r.Context().Done():
			}
		}}
		svc := New()
		leader, cancel := context.WithCancel(t.Context())
		results := make(chan error, 20)
		ask := func(ctx context.Context) {
			_, err := svc.Token(ctx, request(s, ann, "repository:a:pull"))
			results <- err
		}
		go ask(leader)
		synctest.Wait()
		impatient, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		go ask(impatient)
		for range 18 {
			go ask(t.Context())
		}
		time.Sleep(2 * time.Second)
		if err := <-results; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that did not want to wait: %v", err)
		}
		cancel() // the others go on without the first
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("the leader: %v", err)
		}
		synctest.Wait()
		close(release)
		for range 18 {
			if err := <-results; err != nil {
				t.Errorf("one that waited: %v", err)
			}
		}
		if got := s.requests(); len(got) != 2 {
			t.Errorf("%d requests, want the leader's and one more", len(got))
		}
	})
}

func TestPanicLetsTheOthersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &server{answer: func(w http.ResponseWriter, r *http.Request) {
			<-release
			panic("broken transport")
		}}
		svc := New()
		go func() {
			defer func() { _ = recover() }()
			_, _ = svc.Token(t.Context(), request(s, ann, ""))
		}()
		synctest.Wait()
		time.AfterFunc(time.Second, func() { close(release) })
		if _, err := svc.Token(t.Context(), request(s, ann, "")); err == nil || !strings.Contains(err.Error(), "broke off") {
			t.Errorf("Token: %v, want an error", err)
		}
	})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	m := make(map[int]int)
	for i := range maxKept + 10 {
		putBounded(m, i, i)
		if m[i] != i {
			t.Fatalf("%d was not kept", i)
		}
	}
	putBounded(m, maxKept+9, 1)
	if len(m) != maxKept {
		t.Errorf("%d kept, want %d", len(m), maxKept)
	}
}

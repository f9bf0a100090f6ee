package conn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestBody streams an answer while a body is read, and asks once more over the same connection, which ends after a large one.
func TestBody(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := Body(r)
		stream := NewJSON(w, r)
		if err := stream.Send([]byte("begun")); err != nil {
			t.Error(err)
		}
		n, err := io.Copy(io.Discard, body)
		if err := errors.Join(err, stream.Send(fmt.Appendf(nil, "%d bytes", n))); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	for _, tc := range []struct {
		size   int
		sized  bool
		reused bool
	}{
		{0, true, true},
		{1000, true, true},
		{smallBody, true, true},
		{smallBody + 1, true, false},
		{1000, false, false},
	} {
		t.Run(fmt.Sprintf("%d bytes, sized %t", tc.size, tc.sized), func(t *testing.T) {
			c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close() //nolint:errcheck // it ends with the test
			answers := bufio.NewReader(c)
			for range 2 {
				var body io.Reader = strings.NewReader(strings.Repeat("x", tc.size))
				if !tc.sized {
					body = io.MultiReader(body)
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
				if err != nil {
					t.Fatal(err)
				}
				if err := req.Write(c); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(answers, req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				if want := fmt.Sprintf("begun\n%d bytes\n", tc.size); err != nil || string(got) != want {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
				_ = resp.Body.Close()
				if resp.Close == tc.reused {
					t.Fatalf("the connection ends with the answer: %t, want %t", resp.Close, !tc.reused)
				}
				if resp.Close {
					break
				}
			}
		})
	}
}

// TestBodyBroken: a body that breaks off is read as far as it goes, with its error.
func TestBodyBroken(t *testing.T) {
	why := errors.New("the client has gone")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.MultiReader(strings.NewReader("some"), broken{why}))
	r.ContentLength = 9
	got, err := io.ReadAll(Body(r))
	if string(got) != "some" || !errors.Is(err, why) {
		t.Errorf("read %q, %v", got, err)
	}
	if r.ContentLength == 0 {
		t.Error("it counts as read to its end")
	}
}

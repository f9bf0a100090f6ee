package awslogs

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink"
)

// role is what a provider answers about a role.
func role(until time.Time) string {
	return fmt.Sprintf(`{"AccessKeyId":%q,"SecretAccessKey":%q,"Token":%q,"Expiration":%q}`, testKey, testSecret, testSession,
		until.Format(time.RFC3339))
}

// provider gives credentials: those of a container's role at /v2/role, of a pod's at /pod, of the machine's at the paths of its
// metadata. asked counts credentials that were given.
func newProvider(t *testing.T, asked *atomic.Int32, lasting time.Duration) *httptest.Server {
	const metadata = "/latest/meta-data/"
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get("X-Aws-Ec2-Metadata-Token") == "session"
		switch {
		case r.URL.Path == "/v2/role", r.URL.Path == "/pod" && r.Header.Get("Authorization") == "pod-token",
			r.URL.Path == metadata+"iam/security-credentials/my-role" && session:
			asked.Add(1)
			answerWith(w, role(time.Now().Add(lasting)))
		case r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "21600":
			answerWith(w, "session")
		case r.URL.Path == metadata+"iam/security-credentials/" && session:
			answerWith(w, "my-role\n")
		case r.URL.Path == metadata+"placement/region" && session:
			answerWith(w, "eu-test-1\n")
		case r.URL.Path == "/garbage":
			answerWith(w, `{"SecretAccessKey":"leaked-secret"}`)
		case r.URL.Path == "/away":
			http.Redirect(w, r, "/v2/role", http.StatusFound)
		default:
			http.Error(w, "leaked-secret", http.StatusForbidden)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// openLater opens a sender that asks for nothing before its first Send, with roles at an address.
func openLater(t *testing.T, c *cloud, roles string, options ...string) *sender {
	t.Helper()
	setup := setupOf(c, options...)
	setup.Resume = true
	opened, err := Open(context.Background(), setup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	s := opened.(*sender)
	if s.finder.roles != "http://169.254.170.2" {
		t.Errorf("roles are asked for at %s", s.finder.roles)
	}
	s.finder.roles = roles
	return s
}

// TestSources: where credentials come from. Each case has one source that is right, and wrong ones after it.
func TestSources(t *testing.T) {
	var asked atomic.Int32
	provider := newProvider(t, &asked, time.Hour)
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys := "aws_access_key_id = " + testKey + "\n" + "AWS_SECRET_ACCESS_KEY=" + testSecret + "\naws_session_token=" + testSession + "\n"
	wrong := write("wrong", "[default]\naws_access_key_id=WRONG\naws_secret_access_key=wrong\n")
	write("home/.aws/credentials", "# mine\n[default]\n"+keys)
	config := write("home2/.aws/config", "[default]\nregion=x\n[profile other]\n; nothing\n[ profile  work ]\n"+keys)
	profiles := write("profiles", "[default]\naws_access_key_id=WRONG\naws_secret_access_key=wrong\n[work]\n"+keys+"s3 =\n  aws_access_key_id=WRONG\n")
	half := write("half", "[work]\naws_secret_access_key=wrong\n")
	token := write("token", "pod-token\n")
	for _, tc := range []struct {
		name    string
		session string
		env     []string
		option  string
	}{
		{"environment", "", []string{"AWS_ACCESS_KEY_ID=" + testKey, "AWS_SECRET_ACCESS_KEY=" + testSecret, "AWS_SHARED_CREDENTIALS_FILE=" + wrong}, ""},
		{"session", testSession, []string{
			"AWS_ACCESS_KEY_ID=" + testKey, "AWS_SECRET_ACCESS_KEY=" + testSecret, "AWS_SESSION_TOKEN=" + testSession,
		}, ""},
		{"home", testSession, []string{"HOME=" + folder + "/home", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/garbage"}, ""},
		{"profile of the config", testSession, []string{"HOME=" + folder + "/home2", "AWS_PROFILE=work"}, ""},
		{"named config", testSession, []string{"AWS_CONFIG_FILE=" + config, "AWS_PROFILE=work"}, ""},
		{"half", testSession, []string{"AWS_SHARED_CREDENTIALS_FILE=" + half, "AWS_CONFIG_FILE=" + config, "AWS_PROFILE=work"}, ""},
		{"profile", testSession, []string{"AWS_SHARED_CREDENTIALS_FILE=" + profiles, "AWS_PROFILE=work"}, ""},
		{"container", testSession, []string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/v2/role", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://localhost:1/"}, ""},
		{"pod", testSession, []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + provider.URL + "/pod", "AWS_CONTAINER_AUTHORIZATION_TOKEN=pod-token"}, ""},
		{"pod with a file", testSession, []string{
			"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + provider.URL + "/pod", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=" + token,
		}, ""},
		{"machine", testSession, []string{"AWS_EC2_METADATA_DISABLED=false", "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + provider.URL}, ""},
		{"option", testSession, []string{"AWS_ACCESS_KEY_ID=WRONG", "AWS_SECRET_ACCESS_KEY=wrong"}, "/v2/role"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCloud(t)
			c.session = tc.session
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "")
			for _, variable := range tc.env {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			options := []string{}
			if tc.option != "" {
				options = append(options, "awslogs-credentials-endpoint="+tc.option)
			}
			mustSend(t, openLater(t, c, provider.URL, options...), recordsOf("a"), false, 1)
			c.expect("a")
		})
	}
}

// TestNoCredentials: the error says where they were looked for, and shows nothing of what was found.
func TestNoCredentials(t *testing.T) {
	var asked atomic.Int32
	provider := newProvider(t, &asked, time.Hour)
	folder := t.TempDir()
	fifo := filepath.Join(folder, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, env, want string }{
		{"FIFO", "AWS_SHARED_CREDENTIALS_FILE=" + fifo, fifo},
		{"nothing", "AWS_PROFILE=", "no credentials in the environment"},
		{"profile", "AWS_PROFILE=nosuch", `profile "nosuch"`},
		{"file", "AWS_SHARED_CREDENTIALS_FILE=" + folder, folder},
		{"far", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://192.0.2.1/x", "192.0.2.1 is not on this machine and has no TLS"},
		{"named far", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://example.test/x", "example.test is not on this machine"},
		{"other scheme", "AWS_CONTAINER_CREDENTIALS_FULL_URI=file:///etc/passwd", "no URL"},
		{"no such place", "AWS_CONTAINER_CREDENTIALS_FULL_URI=" + provider.URL + "/other", "status 403"},
		{"garbage", "AWS_CONTAINER_CREDENTIALS_FULL_URI=" + provider.URL + "/garbage", "no credentials in the answer"},
		{"redirect", "AWS_CONTAINER_CREDENTIALS_FULL_URI=" + provider.URL + "/away", "status 302"},
		{"nobody", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:1/x", "127.0.0.1:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCloud(t)
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			name, value, _ := strings.Cut(tc.env, "=")
			t.Setenv(name, value)
			_, err := Open(context.Background(), setupOf(c))
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "leaked") {
				t.Errorf("Open = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestRenewal: credentials that end soon, or that the service refuses, are fetched anew; others are kept.
func TestRenewal(t *testing.T) {
	for lasting, want := range map[time.Duration]int32{time.Hour: 1, 4 * time.Minute: 3} {
		var asked atomic.Int32
		provider := newProvider(t, &asked, lasting)
		c := newCloud(t)
		c.session = testSession
		s := openLater(t, c, provider.URL, "awslogs-credentials-endpoint=/v2/role")
		for range 3 {
			mustSend(t, s, recordsOf("a"), false, 1)
		}
		if got := asked.Load(); got != want {
			t.Errorf("credentials for %s were fetched %d times, want %d", lasting, got, want)
		}
	}
	for _, refusal := range []struct {
		status int
		kind   string
	}{{400, "ExpiredTokenException"}, {403, "Forbidden"}} {
		var asked atomic.Int32
		provider := newProvider(t, &asked, time.Hour)
		c := newCloud(t)
		c.session = testSession
		s := openLater(t, c, provider.URL, "awslogs-credentials-endpoint=/v2/role")
		c.answer = func(w http.ResponseWriter, _ string) bool {
			fail(w, refusal.status, refusal.kind, "token "+testSession+" of "+testSecret)
			return true
		}
		n, err := s.Send(context.Background(), recordsOf("a"), false)
		if n != 0 || err == nil || !strings.Contains(err.Error(), refusal.kind) || strings.Contains(err.Error(), testSession) ||
			strings.Contains(err.Error(), testSecret) {
			t.Errorf("Send = %d, %v, want an error without secrets", n, err)
		}
		c.set(func() { c.answer = nil })
		mustSend(t, s, recordsOf("a"), false, 1)
		if got := asked.Load(); got != 2 {
			t.Errorf("credentials were fetched %d times, want 2", got)
		}
	}
}

// TestRegion: of the option, the environment, the machine.
func TestRegion(t *testing.T) {
	var asked atomic.Int32
	provider := newProvider(t, &asked, time.Hour)
	for _, tc := range []struct {
		name, option string
		env          []string
		region       string
	}{
		{"option", "eu-test-1", []string{"AWS_REGION=other"}, "eu-test-1"},
		{"variable", "", []string{"AWS_REGION=eu-test-1", "AWS_DEFAULT_REGION=other"}, "eu-test-1"},
		{"default", "", []string{"AWS_DEFAULT_REGION=eu-test-1"}, "eu-test-1"},
		{"machine", "", []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + provider.URL + "/"}, "eu-test-1"},
		{"none", "", []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCloud(t)
			for _, variable := range tc.env {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			opened, err := Open(context.Background(), setupOf(c, "awslogs-region="+tc.option))
			if (err == nil) != (tc.region != "") || err != nil && (!fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "region")) {
				t.Fatalf("Open = %v", err)
			}
			if err == nil {
				_ = opened.Close()
			}
		})
	}
}

// TestEndpoint: the service of a region.
func TestEndpoint(t *testing.T) {
	for region, want := range map[string]string{
		"us-east-1": "https://logs.us-east-1.amazonaws.com", "cn-north-1": "https://logs.cn-north-1.amazonaws.com.cn",
	} {
		opened, err := Open(context.Background(), logsink.Setup{
			Container: logsink.Container{ID: "x"}, Resume: true,
			Options: map[string]string{"awslogs-group": "g", "awslogs-region": region},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := opened.(*sender)
		if err := s.findRegion(context.Background()); err != nil || s.endpoint != want {
			t.Errorf("endpoint of %s is %s, %v, want %s", region, s.endpoint, err, want)
		}
		_ = s.Close()
	}
}

// TestAuthorizePod: with TLS the place may be anywhere.
func TestAuthorizePod(t *testing.T) {
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "token")
	for _, address := range []string{
		"https://far.test/x", "http://localhost/x", "http://127.0.0.2/x", "http://[::1]:80/x", "http://169.254.170.2/x",
		"http://169.254.170.23/x", "http://[fd00:ec2::23]/x",
	} {
		if header, err := authorizePod(address); err != nil || header.Get("Authorization") != "token" {
			t.Errorf("authorizePod(%s) = %v, %v", address, header, err)
		}
	}
}

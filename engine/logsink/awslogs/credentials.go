package awslogs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"moss/engine/logdriver"
)

const (
	metadataTimeout = 5 * time.Second  // of a request to an address of this machine's provider
	renewBefore     = 5 * time.Minute  // credentials are fetched anew when they hold no longer than that
	maxFile         = 1 << 20          // bytes of a file of credentials
	sessionTime     = "21600"          // seconds that a session with the machine's metadata holds
	roleHost        = "169.254.170.2"  // gives the credentials of a container's role
	podHost         = "169.254.170.23" // the same for pods
	podHost6        = "fd00:ec2::23"
	metadataURL     = "http://169.254.169.254"
)

// credentials sign requests.
type credentials struct {
	id      string
	secret  logdriver.Secret
	session logdriver.Secret // empty: they are those of a user
	until   time.Time        // zero: no end
}

// finder looks for credentials and for the region.
type finder struct {
	path   string // option awslogs-credentials-endpoint
	roles  string // scheme and host of the container credentials endpoint
	client *http.Client
}

// newFinder returns a finder. Its requests go to addresses of this machine's provider, never by a proxy.
func newFinder(path string) *finder {
	dialer := &net.Dialer{Timeout: metadataTimeout}
	return &finder{path: path, roles: "http://" + roleHost, client: &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, MaxIdleConns: 1, DisableKeepAlives: true, MaxResponseHeaderBytes: maxAnswer,
			TLSHandshakeTimeout: metadataTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// findCredentials returns credentials: those of the option, or the first of the environment, the user's files, the container's
// role and the machine's role. The error names the place.
func (f *finder) findCredentials(ctx context.Context) (credentials, error) {
	if f.path != "" {
		return f.fetchRole(ctx, f.roles+f.path, nil)
	}
	if id, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"); id != "" && secret != "" {
		return credentials{
			id: id, secret: logdriver.Secret(secret), session: logdriver.Secret(os.Getenv("AWS_SESSION_TOKEN")),
		}, nil
	}
	if found, err := findInFiles(); err != nil || found.id != "" {
		return found, err
	}
	if path := os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		return f.fetchRole(ctx, f.roles+path, nil)
	}
	if address := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"); address != "" {
		header, err := authorizePod(address)
		if err != nil {
			return credentials{}, err
		}
		return f.fetchRole(ctx, address, header)
	}
	if strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return credentials{}, errors.New("no credentials in the environment or the user's files")
	}
	found, err := f.fetchMachineRole(ctx)
	if err != nil {
		return credentials{}, fmt.Errorf("no credentials in the environment or the user's files, and none of the machine: %w", err)
	}
	return found, nil
}

// authorizePod returns the header for a container credentials endpoint. It refuses one that is reached without TLS and not on
// this machine or at its provider.
func authorizePod(address string) (http.Header, error) {
	const name = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" {
		return nil, errors.New(name + " is no URL")
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && (ip.IsLoopback() || host == roleHost || host == podHost || host == podHost6)
	if parsed.Scheme != "https" && (parsed.Scheme != "http" || !local) {
		return nil, fmt.Errorf("%s: %s is not on this machine and has no TLS", name, host)
	}
	token := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if path := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); path != "" {
		text, err := readFile(path)
		if err != nil {
			return nil, err
		}
		token = string(text)
	}
	header := http.Header{}
	if token = strings.TrimSpace(token); token != "" {
		header.Set("Authorization", token)
	}
	return header, nil
}

// fetchRole asks an address for the credentials of a role.
func (f *finder) fetchRole(ctx context.Context, address string, header http.Header) (credentials, error) {
	text, err := f.fetchAnswer(ctx, http.MethodGet, address, header)
	if err != nil {
		return credentials{}, err
	}
	var role struct {
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		Token           string
		Expiration      time.Time
	}
	if json.Unmarshal(text, &role) != nil || role.AccessKeyID == "" || role.SecretAccessKey == "" {
		return credentials{}, fmt.Errorf("credentials from %s: no credentials in the answer", hostOf(address))
	}
	return credentials{
		id: role.AccessKeyID, secret: logdriver.Secret(role.SecretAccessKey), session: logdriver.Secret(role.Token),
		until: role.Expiration,
	}, nil
}

// fetchMachineRole asks the machine's metadata (instance metadata service, version 2) for the credentials of its role.
func (f *finder) fetchMachineRole(ctx context.Context) (credentials, error) {
	const path = "/latest/meta-data/iam/security-credentials/"
	header, err := f.openMetadata(ctx)
	if err != nil {
		return credentials{}, err
	}
	role, err := f.fetchAnswer(ctx, http.MethodGet, metadataAddress()+path, header)
	if err != nil {
		return credentials{}, err
	}
	name, _, _ := strings.Cut(string(bytes.TrimSpace(role)), "\n")
	return f.fetchRole(ctx, metadataAddress()+path+url.PathEscape(name), header)
}

// fetchRegion asks the machine's metadata for the region.
func (f *finder) fetchRegion(ctx context.Context) (string, error) {
	header, err := f.openMetadata(ctx)
	if err != nil {
		return "", err
	}
	text, err := f.fetchAnswer(ctx, http.MethodGet, metadataAddress()+"/latest/meta-data/placement/region", header)
	return string(bytes.TrimSpace(text)), err
}

// openMetadata begins a session with the machine's metadata and returns its header.
func (f *finder) openMetadata(ctx context.Context) (http.Header, error) {
	header := http.Header{}
	header.Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", sessionTime)
	token, err := f.fetchAnswer(ctx, http.MethodPut, metadataAddress()+"/latest/api/token", header)
	if err != nil {
		return nil, err
	}
	header = http.Header{}
	header.Set("X-Aws-Ec2-Metadata-Token", string(bytes.TrimSpace(token)))
	return header, nil
}

// metadataAddress returns where the machine's metadata is.
func metadataAddress() string {
	if address := os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"); address != "" {
		return strings.TrimSuffix(address, "/")
	}
	return metadataURL
}

// fetchAnswer makes one request and returns the answer's body. The error has the host, and nothing of the answer.
func (f *finder) fetchAnswer(ctx context.Context, method, address string, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("credentials from %s: no valid address", hostOf(address))
	}
	if header != nil {
		request.Header = header
	}
	response, err := f.client.Do(request)
	if err != nil {
		if around, ok := errors.AsType[*url.Error](err); ok {
			err = around.Err
		}
		return nil, fmt.Errorf("credentials from %s: %w", hostOf(address), err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("credentials from %s: %w", hostOf(address), err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("credentials from %s: status %d", hostOf(address), response.StatusCode)
	}
	return text, nil
}

// hostOf returns the host of an address, for errors.
func hostOf(address string) string {
	if parsed, err := url.Parse(address); err == nil {
		return parsed.Host
	}
	return "an address that is no URL"
}

// findInFiles looks into the user's files for the keys of the profile. There being none is no error, unless the user names a
// profile.
func findInFiles() (credentials, error) {
	profile := os.Getenv("AWS_PROFILE")
	named := profile != ""
	if !named {
		profile = "default"
	}
	for _, place := range []struct{ variable, name, section string }{
		{"AWS_SHARED_CREDENTIALS_FILE", "credentials", profile},
		{"AWS_CONFIG_FILE", "config", "profile " + profile},
	} {
		path := os.Getenv(place.variable)
		if path == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				continue // a user without a home has no files
			}
			path = filepath.Join(home, ".aws", place.name)
		}
		text, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return credentials{}, err
		}
		section := place.section
		if profile == "default" {
			section = profile // the one that has no prefix in both files
		}
		values := readSection(string(text), section)
		if values["aws_access_key_id"] != "" && values["aws_secret_access_key"] != "" {
			return credentials{
				id: values["aws_access_key_id"], secret: logdriver.Secret(values["aws_secret_access_key"]),
				session: logdriver.Secret(values["aws_session_token"]),
			}, nil
		}
	}
	if named {
		return credentials{}, fmt.Errorf("the user's files have no keys of profile %q", profile)
	}
	return credentials{}, nil
}

// readFile reads a small regular file.
func readFile(path string) ([]byte, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() || about.Size() > maxFile {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, maxFile)
	}
	return os.ReadFile(path)
}

// readSection returns the values of a section of a file of settings. Names are in lower case.
func readSection(text, section string) map[string]string {
	values := map[string]string{}
	inside := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';' {
			continue
		}
		if trimmed[0] == '[' {
			name, _, _ := strings.Cut(trimmed[1:], "]")
			inside = strings.Join(strings.Fields(name), " ") == section
			continue
		}
		if name, value, found := strings.Cut(trimmed, "="); found && inside && line[0] != ' ' && line[0] != '\t' {
			values[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
	return values
}

package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// server answers at every path: its URL is whatever the registry names as its realm.
type server struct {
	post    bool // the POST form is known
	offline bool // refresh tokens are issued
	life    time.Duration
	users   map[string]string // passwords
	signer  *signer

	mu      sync.Mutex // guards the fields below
	refresh map[string]session
	log     *json.Encoder
}

// session is what a refresh token is good for: one user at one service, whatever the scope (API document 3, 5.3).
type session struct{ user, service string }

// entry is one line of the log.
type entry struct {
	Time      time.Time `json:"time"`
	Method    string    `json:"method"`
	GrantType string    `json:"grant_type,omitempty"`
	Service   string    `json:"service,omitempty"`
	Scope     []string  `json:"scope"` // the values as they came, one for each parameter
	ClientID  string    `json:"client_id,omitempty"`
	Account   string    `json:"account,omitempty"`
	Access    string    `json:"access_type,omitempty"`
	Offline   string    `json:"offline_token,omitempty"`
	Basic     bool      `json:"basic"`
	Status    int       `json:"status"`
	Error     string    `json:"error,omitempty"`
}

// failure is an error of OAuth 2.0 (RFC 6749, 5.2).
type failure struct {
	status int
	code   string
	text   string
}

func (f *failure) Error() string { return f.code + ": " + f.text }

func newServer() *server {
	return &server{post: true, offline: true, life: 5 * time.Minute, refresh: make(map[string]session)}
}

// revokeTokens takes back all refresh tokens.
func (s *server) revokeTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.refresh)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	line := entry{Time: time.Now().UTC(), Method: r.Method, Status: http.StatusOK}
	var answer map[string]any
	var err error
	switch {
	case r.Method == http.MethodPost && s.post:
		answer, err = s.answerPost(r, &line)
	case r.Method == http.MethodGet:
		answer, err = s.answerGet(r, &line)
	default:
		err = &failure{http.StatusNotFound, "", "404 page not found"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if f, ok := errors.AsType[*failure](err); ok {
		line.Status, line.Error = f.status, f.Error()
		answer = map[string]any{"error": f.code, "error_description": f.text}
		if r.Method == http.MethodGet {
			answer = map[string]any{"errors": []any{map[string]string{"code": "UNAUTHORIZED", "message": f.text}}}
		}
	} else if err != nil {
		line.Status, line.Error = http.StatusInternalServerError, err.Error()
	}
	s.logEntry(line) // before the client knows: whoever reads the log after an answer finds it
	w.WriteHeader(line.Status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *server) logEntry(line entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		_ = s.log.Encode(line)
	}
}

// answerPost answers the POST form.
func (s *server) answerPost(r *http.Request, line *entry) (map[string]any, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, badRequest("invalid_request", "the form has another type")
	}
	if err := r.ParseForm(); err != nil {
		return nil, badRequest("invalid_request", "the form cannot be read")
	}
	form := r.PostForm
	line.GrantType, line.Service, line.Scope = form.Get("grant_type"), form.Get("service"), form["scope"]
	line.ClientID, line.Account, line.Access = form.Get("client_id"), form.Get("username"), form.Get("access_type")
	if err := checkForm(form, r.URL.Query()); err != nil {
		return nil, err
	}
	var who session
	var keep string
	switch form.Get("grant_type") {
	case "password":
		if !s.knowsUser(form.Get("username"), form.Get("password")) {
			return nil, badRequest("invalid_grant", "incorrect username or password")
		}
		who = session{form.Get("username"), form.Get("service")}
		if form.Get("access_type") == "offline" && s.offline {
			keep = s.newRefreshToken(who)
		}
	case "refresh_token":
		s.mu.Lock()
		var ok bool
		who, ok = s.refresh[form.Get("refresh_token")]
		s.mu.Unlock()
		if !ok || who.service != form.Get("service") {
			return nil, badRequest("invalid_grant", "the refresh token is not good for this service")
		}
		line.Account = who.user
		if form.Get("access_type") == "offline" {
			keep = form.Get("refresh_token")
		}
	default:
		return nil, badRequest("unsupported_grant_type", "this grant type is for later")
	}
	granted := grantScopes(who.user, strings.Fields(form.Get("scope")))
	answer, err := s.tokenAnswer(who, granted)
	if err != nil {
		return nil, err
	}
	answer["scope"] = scopeList(granted)
	if keep != "" {
		answer["refresh_token"] = keep
	}
	return answer, nil
}

// checkForm holds a form against the rules of API document 3, 5.3, and those of OAuth 2.0 that it follows.
func checkForm(form, query url.Values) error {
	if len(query) > 0 {
		return badRequest("invalid_request", "parameters belong in the form")
	}
	for name, values := range form {
		if len(values) > 1 {
			return badRequest("invalid_request", name+" is given more than once")
		}
	}
	needed := []string{"grant_type", "service", "client_id"}
	switch form.Get("grant_type") {
	case "password":
		needed = append(needed, "username", "password")
	case "refresh_token":
		needed = append(needed, "refresh_token")
		if form.Has("password") {
			return badRequest("invalid_request", "a password has no business with a refresh token")
		}
	}
	for _, name := range needed {
		if form.Get(name) == "" {
			return badRequest("invalid_request", name+" is missing")
		}
	}
	if strings.ContainsFunc(form.Get("client_id"), func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return badRequest("invalid_request", "client_id has characters that it cannot have") // RFC 6749, appendix A.1
	}
	if a := form.Get("access_type"); form.Has("access_type") && a != "offline" && a != "online" {
		return badRequest("invalid_request", "access_type is neither offline nor online")
	}
	seen := make(map[string]bool)
	for scope := range strings.FieldsSeq(form.Get("scope")) {
		name := scope[:strings.LastIndexByte(scope, ':')+1]
		if strings.Count(scope, ":") < 2 || seen[name] {
			return badRequest("invalid_scope", "not a list of TYPE:NAME:ACTION,ACTION with every name once")
		}
		seen[name] = true
	}
	return nil
}

// answerGet answers the form that every token server has.
func (s *server) answerGet(r *http.Request, line *entry) (map[string]any, error) {
	query := r.URL.Query()
	user, password, basic := r.BasicAuth()
	line.Service, line.Scope, line.Account, line.Basic = query.Get("service"), query["scope"], query.Get("account"), basic
	line.ClientID, line.Offline = query.Get("client_id"), query.Get("offline_token")
	if query.Get("service") == "" {
		return nil, &failure{http.StatusBadRequest, "", "service is missing"}
	}
	if query.Has("grant_type") || query.Has("password") || query.Has("refresh_token") {
		return nil, &failure{http.StatusBadRequest, "", "secrets do not belong in a query"}
	}
	if basic && (!s.knowsUser(user, password) || (query.Has("account") && query.Get("account") != user)) {
		return nil, &failure{http.StatusUnauthorized, "", "incorrect username or password"}
	}
	who := session{user, query.Get("service")}
	answer, err := s.tokenAnswer(who, grantScopes(user, strings.Fields(strings.Join(query["scope"], " "))))
	if err != nil {
		return nil, err
	}
	answer["token"] = answer["access_token"]
	if basic && query.Get("offline_token") == "true" && s.offline {
		answer["refresh_token"] = s.newRefreshToken(who)
	}
	return answer, nil
}

func (s *server) tokenAnswer(who session, granted []access) (map[string]any, error) {
	now := time.Now().UTC().Truncate(time.Second)
	token, err := s.signer.signToken(who, granted, now, s.life)
	return map[string]any{
		"access_token": token, "expires_in": int(s.life.Seconds()), "issued_at": now.Format(time.RFC3339),
	}, err
}

func (s *server) knowsUser(user, password string) bool {
	want, ok := s.users[user]
	return ok && want == password
}

func (s *server) newRefreshToken(who session) string {
	t := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh[t] = who
	return t
}

// access is one scope as the registry wants it in a token.
type access struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// grantScopes says what of the scopes a user may have; nobody is the empty name.
func grantScopes(user string, scopes []string) []access {
	granted := []access{}
	for _, scope := range scopes {
		kind, rest, _ := strings.Cut(scope, ":")
		end := strings.LastIndexByte(rest, ':')
		if end < 0 {
			continue
		}
		a := access{Type: kind, Name: rest[:end]}
		for action := range strings.SplitSeq(rest[end+1:], ",") {
			open := action == "pull" && kind == "repository" && !strings.HasPrefix(a.Name, "private/")
			if user != "" || open {
				a.Actions = append(a.Actions, action)
			}
		}
		if len(a.Actions) > 0 {
			granted = append(granted, a)
		}
	}
	return granted
}

func scopeList(granted []access) string {
	list := make([]string, 0, len(granted))
	for _, a := range granted {
		list = append(list, a.Type+":"+a.Name+":"+strings.Join(slices.Sorted(slices.Values(a.Actions)), ","))
	}
	return strings.Join(list, " ")
}

func badRequest(code, text string) error { return &failure{http.StatusBadRequest, code, text} }

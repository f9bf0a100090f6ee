package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"moss/api/client/clienttest"
	"moss/cmd/moss/tty/ttytest"
)

// loginEngine takes ann with the password secret, and bob with the identity token tok.
func loginEngine(t *testing.T) (*clienttest.Engine, *[]map[string]string) {
	t.Helper()
	engine := clienttest.New(t)
	var asked []map[string]string
	engine.Override["POST /auth"] = func(w http.ResponseWriter, r *http.Request) {
		body := map[string]string{}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked = append(asked, body)
		switch {
		case body["username"] == "ann" && body["password"] == "secret":
			clienttest.JSON(w, http.StatusOK, map[string]any{"Status": "Login Succeeded", "IdentityToken": ""})
		case body["username"] == "bob" && (body["password"] == "hidden" || body["identitytoken"] == "tok"):
			clienttest.JSON(w, http.StatusOK, map[string]any{"Status": "Login Succeeded", "IdentityToken": "tok"})
		default:
			clienttest.Fail(w, http.StatusUnauthorized, "unauthorized: incorrect username or password")
		}
	}
	return engine, &asked
}

func TestLogin(t *testing.T) {
	engine, asked := loginEngine(t)
	home := filepath.Join(t.TempDir(), "home")
	env := map[string]string{"HOME": home}
	for _, tc := range []struct {
		args, input string
		code        int
		stdout      string
		stderr      string // part of it
	}{
		{"login reg:5000", "", exitFailed, "", "stdin is not a terminal"},
		{"login --password-stdin reg:5000", "x", exitEngine, "", "requires --username"},
		{"login -u ann -p secret --password-stdin", "x", exitEngine, "", "cannot be combined with"},
		{"login -u a:b -p secret", "", exitEngine, "", "colon"},
		{"login -u ann --password-stdin reg:5000", "\n", exitFailed, "", "empty"},
		{"login -u ann --password-stdin reg:5000", "wrong\n", exitFailed, "", "moss: login at reg:5000: unauthorized"},
		{"login -u ann --password-stdin https://reg:5000/v2/", "secret\n", 0, "Login Succeeded\n", "kept unencrypted in " + home + "/.docker/config.json"},
		{"login -u bob -p hidden", "", 0, "Login Succeeded\n", "seen by others"},
		{"login reg:5000", "", 0, "Authenticating with existing credentials...\nLogin Succeeded\n", ""},
		{"login docker.io", "", 0, "Authenticating with existing credentials...\nLogin Succeeded\n", ""},
		{"logout reg:5000", "", 0, "Removing login credentials for reg:5000\n", ""},
		{"logout reg:5000", "", 0, "Not logged in to reg:5000\n", ""},
		{"logout", "", 0, "Removing login credentials for docker.io\n", ""},
	} {
		stdout, stderr, code := mossAt(t, engine, env, tc.input, strings.Fields(tc.args)...)
		if stdout != tc.stdout || code != tc.code || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("moss %s: %q, %q, %d, want %q, %q, %d", tc.args, stdout, stderr, code, tc.stdout, tc.stderr, tc.code)
		}
		if strings.Contains(stdout+stderr, "secret") || strings.Contains(stdout+stderr, "hidden") {
			t.Errorf("moss %s shows a secret: %q, %q", tc.args, stdout, stderr)
		}
	}
	if last := (*asked)[len(*asked)-1]; last["identitytoken"] != "tok" || last["password"] != "" || last["serveraddress"] != "https://index.docker.io/v1/" {
		t.Errorf("the last login was with %v, want the identity token alone", last)
	}
	raw, err := os.ReadFile(filepath.Join(home, ".docker/config.json"))
	if err != nil || string(raw) != "{\n\t\"auths\": {}\n}\n" {
		t.Errorf("after the logouts the file is %q, %v", raw, err)
	}
}

// TestLoginAsks types the credentials; the password is not shown.
func TestLoginAsks(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		code         int
	}{
		{"a password", "secret\r", 0},
		{"none", "\r", exitFailed},
		{"the end of input", "\x04", exitFailed},
		{"Ctrl-C", "\x03", 130},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine, _ := loginEngine(t)
			term := onTerminal(t, engine, "login", "reg:5000")
			term.await("Username for reg:5000: ")
			term.typeIn("ann\r")
			term.await("Password: ")
			if mode := ttytest.Mode(t, term.slave); mode.Lflag&echo != 0 {
				t.Error("the terminal shows what is typed")
			}
			term.typeIn(tc.answer)
			code := term.exitCode()
			if tc.code == 0 {
				term.await("cannot be stored") // the test's command has no home
				tc.code = exitFailed
			}
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if mode := ttytest.Mode(t, term.slave); mode.Lflag&echo == 0 {
				t.Error("the terminal is left without echo")
			}
		})
	}
}

const echo = 0o10 // of a terminal's local modes

func TestHistory(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /images/box/history"] = answer(`[
		{"Id":"sha256:0123456789abcdef","Created":1700000000,"CreatedBy":"/bin/sh -c #(nop)\tCMD [\"sh\" \"-c\" \"something that is long\"]","Tags":["box:v1"],"Size":0,"Comment":"why"},
		{"Id":"<missing>","Created":0,"CreatedBy":"ADD","Tags":null,"Size":4670000,"Comment":""}]`)
	for _, tc := range []struct{ args, want string }{
		{
			"history --format {{.ID}}|{{.CreatedBy}}|{{.Size}}|{{.Comment}}|{{.Tags}} box",
			"0123456789ab|/bin/sh -c #(nop) CMD [\"sh\" \"-c\" \"something …|0B|why|box:v1\n<missing>|ADD|4.67MB||\n",
		},
		{"history -q --no-trunc box", "sha256:0123456789abcdef\n<missing>\n"},
		{"image history -H=false --format {{.Size}} box", "0\n4670000\n"},
		{"history -H --format {{.CreatedSince}} box", ""},
	} {
		stdout, stderr, code := moss(t, engine, "", strings.Fields(tc.args)...)
		if code != 0 || (tc.want != "" && stdout != tc.want) || !strings.HasSuffix(stdout, "\n") {
			t.Errorf("moss %s: %q, %q, %d, want %q", tc.args, stdout, stderr, code, tc.want)
		}
	}
	if stdout, _, _ := moss(t, engine, "", "history", "box"); !strings.HasPrefix(stdout, "IMAGE          CREATED") || !strings.Contains(stdout, "N/A") {
		t.Errorf("the table is %q", stdout)
	}
	a := &app{stdin: os.Stdin, stdout: io.Discard, stderr: io.Discard, lookup: os.LookupEnv}
	if code := a.runArgs([]string{"-H", engine.Host(), "history", "-H", "box"}); code != 0 {
		t.Errorf("both meanings of -H: exit code %d", code)
	}
}

func TestSearch(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /images/search"] = answer(`[{"name":"a","description":"few\n stars","star_count":1,"is_official":false},
		{"name":"b","description":"a description that goes on and on and on and on","star_count":20,"is_official":true}]`)
	stdout, _, code := moss(t, engine, "", "search", "--limit", "5", "--filter", "stars=1", "reg:5000/box")
	want := "NAME      DESCRIPTION                                     STARS     OFFICIAL\n" +
		"b         a description that goes on and on and on and…   20        [OK]\n" +
		"a         few stars                                       1         \n"
	if stdout != want || code != 0 {
		t.Errorf("got %q, %d, want %q", stdout, code, want)
	}
	if last := engine.Requests()[0]; last != "GET /images/search?filters=%7B%22stars%22%3A%5B%221%22%5D%7D&limit=5&term=reg%3A5000%2Fbox" {
		t.Errorf("request %s", last)
	}
	if stdout, _, _ := moss(t, engine, "", "search", "--format", "json", "x"); !strings.Contains(stdout, `"IsOfficial":"true"`) {
		t.Errorf("json: %q", stdout)
	}
	if _, _, code := moss(t, engine, "", "search", "--limit", "101", "x"); code != exitEngine {
		t.Errorf("a limit of 101: exit code %d, want 125", code)
	}
}

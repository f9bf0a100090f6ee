package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"moss/api/client/clienttest"
	"moss/api/types"
)

func TestImagesTree(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /images/json"] = answer(`[
		{"Id":"sha256:base000000000000","RepoTags":["base:v1","base:v2"],"Size":1000000},
		{"Id":"sha256:app0000000000000","RepoTags":["app:v1"],"Size":3000000},
		{"Id":"sha256:tool000000000000","RepoTags":["<none>:<none>"],"Size":1500000},
		{"Id":"sha256:x00000000000000a","RepoTags":["x:1"],"Size":20},
		{"Id":"sha256:y00000000000000b","RepoTags":["y:1"],"Size":30},
		{"Id":"sha256:same000000000000","RepoTags":["copy:v1"],"Size":1000000},
		{"Id":"sha256:alone00000000000","RepoTags":["alone:v1"],"Size":5}]`)
	for id, layers := range map[string]string{
		"base000000000000": `"1"`, "app0000000000000": `"1","2","3"`, "tool000000000000": `"1","2","4"`, "x00000000000000a": `"7","8"`,
		"y00000000000000b": `"7","9"`, "same000000000000": `"1"`, "alone00000000000": "",
	} {
		engine.Override["GET /images/sha256:"+id+"/json"] = answer(`{"RootFS":{"Layers":[` + layers + `]}}`)
	}
	stdout, stderr, code := moss(t, engine, "", "images", "--tree")
	want := "IMAGE             " + `IMAGE ID       LAYERS    SIZE      ADDED
alone:v1          alone0000000   0         5B        5B
base:v1, 1 more   base00000000   1         1MB       1MB
copy:v1           same00000000   1         1MB       1MB
└─ (shared)                      2                   
   ├─ app:v1      app000000000   3         3MB       2MB
   └─ <none>      tool00000000   3         1.5MB     500kB
(shared)                         1                   
├─ x:1            x00000000000   2         20B       20B
└─ y:1            y00000000000   2         30B       30B
`
	if stdout != want || code != 0 {
		t.Errorf("got\n%s%s%d, want\n%s", stdout, stderr, code, want)
	}
	if _, _, code := moss(t, engine, "", "images", "--tree", "-q"); code != exitEngine {
		t.Errorf("--tree with -q: exit code %d, want 125", code)
	}
}

const usageAnswer = `{"LayersSize":1000,"LayersUsed":600,
	"Images":[{"Id":"sha256:0123456789abcdef","RepoTags":["box:v1"],"Size":600,"SharedSize":200,"UniqueSize":400,"Containers":1},
		{"Id":"sha256:fedcba9876543210","RepoTags":["<none>:<none>"],"Size":600,"SharedSize":200,"UniqueSize":400,"Containers":0}],
	"Containers":[{"Id":"1","Names":["/a"],"State":"running","SizeRw":10},{"Id":"2","Names":["/b"],"State":"exited","SizeRw":30},
		{"Id":"3","State":"paused","SizeRw":0}],
	"Volumes":[{"Name":"v","UsageData":{"Size":500,"RefCount":0}},{"Name":"w","UsageData":{"Size":1500,"RefCount":2}}],
	"BuildCache":[{"ID":"sha256:0123456789abcdef","Type":"regular","Size":100,"InUse":true,"UsageCount":3,"LastUsedAt":"2015-11-21T00:00:00Z"},
		{"ID":"sha256:aaaaaaaaaaaaaaaa","Type":"regular","Size":5000,"Shared":true},
		{"ID":"cache","Type":"exec.cachemount","Size":300}]}`

func TestDiskUsage(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /system/df"] = answer(usageAnswer)
	stdout, stderr, code := moss(t, engine, "", "system", "df")
	want := "TYPE            TOTAL     ACTIVE    SIZE      RECLAIMABLE\n" +
		"Images          2         1         1kB       400B (40%)\n" +
		"Containers      3         2         40B       30B (75%)\n" +
		"Local Volumes   2         1         2kB       500B (25%)\n" +
		"Build Cache     3         1         400B      300B (75%)\n"
	if stdout != want || stderr != "" || code != 0 {
		t.Errorf("got %q, %q, %d, want %q", stdout, stderr, code, want)
	}
	if stdout, _, _ := moss(t, engine, "", "system", "df", "--format", "{{.Type}}={{.TotalCount}}/{{.Active}}"); stdout != "Images=2/1\nContainers=3/2\nLocal Volumes=2/1\nBuild Cache=3/1\n" {
		t.Errorf("--format: %q", stdout)
	}
	stdout, _, code = moss(t, engine, "", "system", "df", "-v")
	for _, want := range []string{"Images space usage:", "SHARED SIZE   UNIQUE SIZE", "200B          400B          1", "LINKS", "w             2         1.5kB", "Build cache usage:", "years ago   3         false", "exec.cachemount   300B"} {
		if !strings.Contains(stdout, want) || code != 0 {
			t.Errorf("-v lacks %q:\n%s", want, stdout)
		}
	}
	for name, tc := range map[string]struct {
		layers, used int64
		want         string
	}{
		"no image":      {0, 0, "0B"},
		"none is used":  {100, 0, "100B (100%)"},
		"all are used":  {100, 100, "0B (0%)"},
		"some are used": {120, 100, "20B (16%)"},
	} {
		if row := usageOfImages(types.DiskUsage{LayersSize: tc.layers, LayersUsed: tc.used}); row["Reclaimable"] != tc.want {
			t.Errorf("%s: %s can be reclaimed, want %s", name, row["Reclaimable"], tc.want)
		}
	}
}

func TestPrune(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /containers/prune"] = answer(`{"ContainersDeleted":["c1","c2"],"SpaceReclaimed":1000}`)
	engine.Override["POST /images/prune"] = answer(`{"ImagesDeleted":[{"Untagged":"box:v1"},{"Deleted":"sha256:77"}],"SpaceReclaimed":2000}`)
	engine.Override["POST /volumes/prune"] = answer(`{"VolumesDeleted":null,"SpaceReclaimed":0}`)
	engine.Override["POST /networks/prune"] = answer(`{"NetworksDeleted":["front","back"]}`)
	engine.Override["POST /build/prune"] = answer(`{"CachesDeleted":["sha256:78"],"SpaceReclaimed":4000}`)
	const dangling = "filters=%7B%22dangling%22%3A%5B%22"
	for _, tc := range []struct {
		args, input, stdout string
		code                int
		requests            []string
	}{
		{"container prune -f", "", "Deleted Containers:\nc1\nc2\n\nTotal reclaimed space: 1kB\n", 0, []string{"POST /containers/prune"}},
		{"container prune", "y\n", "Deleted Containers:\nc1\nc2\n\nTotal reclaimed space: 1kB\n", 0, []string{"POST /containers/prune"}},
		{"container prune", "n\n", "", exitFailed, nil},
		{"container prune", "", "", exitFailed, nil},
		{
			"image prune -f", "", "Deleted Images:\nuntagged: box:v1\ndeleted: sha256:77\n\nTotal reclaimed space: 2kB\n", 0,
			[]string{"POST /images/prune?" + dangling + "true%22%5D%7D"},
		},
		{
			"image prune -af --filter label=a=b", "", "Deleted Images:\nuntagged: box:v1\ndeleted: sha256:77\n\nTotal reclaimed space: 2kB\n", 0,
			[]string{"POST /images/prune?" + dangling + "false%22%5D%2C%22label%22%3A%5B%22a%3Db%22%5D%7D"},
		},
		{
			"network prune -f --filter label!=keep", "", "Deleted Networks:\nfront\nback\n\n", 0,
			[]string{"POST /networks/prune?filters=%7B%22label%21%22%3A%5B%22keep%22%5D%7D"},
		},
		{"network prune", "n\n", "", exitFailed, nil},
		{"volume prune -f", "", "Total reclaimed space: 0B\n", 0, []string{"POST /volumes/prune"}},
		{
			"volume prune -af --filter label=a", "", "Total reclaimed space: 0B\n", 0,
			[]string{"POST /volumes/prune?filters=%7B%22all%22%3A%5B%22true%22%5D%2C%22label%22%3A%5B%22a%22%5D%7D"},
		},
		{
			"system prune --volumes", "YES\n", "Deleted Containers:\nc1\nc2\n\nDeleted Networks:\nfront\nback\n\nDeleted Images:\nuntagged: box:v1\ndeleted: sha256:77\n\nDeleted build cache objects:\nsha256:78\n\nTotal reclaimed space: 7kB\n", 0,
			[]string{"POST /containers/prune", "POST /networks/prune", "POST /images/prune?" + dangling + "true%22%5D%7D", "POST /build/prune", "POST /volumes/prune"},
		},
		{
			"system prune -f --filter label=a=b", "", "Deleted Containers:\nc1\nc2\n\nDeleted Networks:\nfront\nback\n\nDeleted Images:\nuntagged: box:v1\ndeleted: sha256:77\n\nTotal reclaimed space: 3kB\n", 0,
			[]string{
				"POST /containers/prune?filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D", "POST /networks/prune?filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D",
				"POST /images/prune?" + dangling + "true%22%5D%2C%22label%22%3A%5B%22a%3Db%22%5D%7D",
			},
		},
		{"builder prune", "n\n", "", exitFailed, nil},
		{"builder prune -f", "", "Deleted build cache objects:\nsha256:78\n\nTotal reclaimed space: 4kB\n", 0, []string{"POST /build/prune"}},
		{
			"builder prune -af --keep-storage 5k --filter until=24h", "", "Deleted build cache objects:\nsha256:78\n\nTotal reclaimed space: 4kB\n", 0,
			[]string{"POST /build/prune?all=1&filters=%7B%22until%22%3A%5B%2224h%22%5D%7D&keep-storage=5120"},
		},
		{"builder prune -f --keep-storage much", "", "", exitEngine, nil},
		{"system prune -f --volumes --filter until=1h", "", "", exitEngine, nil},
	} {
		before := len(engine.Requests())
		stdout, stderr, code := moss(t, engine, tc.input, strings.Fields(tc.args)...)
		if stdout != tc.stdout || code != tc.code || !slices.Equal(engine.Requests()[before:], tc.requests) {
			t.Errorf("moss %s: %q, %q, %d and %q, want %q, %d and %q", tc.args, stdout, stderr, code, engine.Requests()[before:], tc.stdout, tc.code, tc.requests)
		}
		if asked := strings.Contains(stderr, "Are you sure? [y/N] "); asked == (strings.Contains(tc.args, " -f") || strings.Contains(tc.args, " -af")) {
			t.Errorf("moss %s asked: %t", tc.args, asked)
		}
	}
	engine.Override["POST /images/prune"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusInternalServerError, "the disk is gone")
	}
	stdout, stderr, code := moss(t, engine, "", "system", "prune", "-f")
	if !strings.HasSuffix(stdout, "c2\n\nDeleted Networks:\nfront\nback\n\nTotal reclaimed space: 1kB\n") || stderr != "moss: the disk is gone\n" || code != exitFailed {
		t.Errorf("after a failure: %q, %q, %d, want what went before it", stdout, stderr, code)
	}
}

// TestGroups makes sure that the groups' commands have their texts, and are what they are outside.
func TestGroups(t *testing.T) {
	a := &app{lookup: func(string) (string, bool) { return "", false }}
	for _, group := range []string{"image", "container", "system", "volume", "network", "builder"} {
		for _, cmd := range a.rootCommand([]string{group}).Commands()[0].Commands() {
			if cmd.Short == "" || cmd.Example == "" || strings.HasSuffix(cmd.Short, ".") {
				t.Errorf("moss %s %s: short %q, example %q", group, cmd.Name(), cmd.Short, cmd.Example)
			}
		}
	}
	engine := clienttest.New(t)
	engine.Override["GET /images/json"] = answer(`[{"Id":"sha256:0123456789abcdef"}]`)
	for _, args := range []string{"images -q", "image ls -q", "image list -q"} {
		if stdout, stderr, _ := moss(t, engine, "", strings.Fields(args)...); stdout != "0123456789ab\n" {
			t.Errorf("moss %s: %q, %q", args, stdout, stderr)
		}
	}
	for args, want := range map[string]string{
		"frobnicate":  "moss: unknown command \"frobnicate\"; see 'moss --help'\n",
		"image bogus": "moss: unknown command \"bogus\"; see 'moss image --help'\n",
	} {
		if stdout, stderr, code := moss(t, engine, "", strings.Fields(args)...); stdout != "" || stderr != want || code != exitEngine {
			t.Errorf("moss %s: %q, %q, %d, want %q, 125", args, stdout, stderr, code, want)
		}
	}
	engine.Override["GET /images/json"] = answer(`[{"Id":"sha256:0123456789abcdef","RepoTags":["box:latest","box:v1"]}]`)
	if stdout, _, _ := moss(t, engine, "", "__complete", "rmi", "b"); !strings.HasPrefix(stdout, "box:latest\nbox\nbox:v1\n:") {
		t.Errorf("completion of an image: %q, want each name once", stdout)
	}
}

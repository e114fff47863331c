package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/parawork/parawork/"

// pkg is what go list says of a package.
type pkg struct {
	ImportPath, Name, Doc, Dir string
	GoFiles, Imports, Deps     []string
}

// list returns the packages of this module that patterns name, by path within the module.
func list(t *testing.T, env []string, patterns ...string) map[string]pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Name,Doc,Dir,GoFiles,Imports,Deps"}, patterns...)...)
	cmd.Dir = "../.."
	cmd.Env = append(cmd.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	all := map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all[short(p.ImportPath)] = p
	}
}

// short writes a package of this module as ./path, so that ./sync is not taken for sync.
func short(path string) string {
	if rest, ours := strings.CutPrefix(path, module); ours {
		return "./" + rest
	}
	return path
}

// rule bans packages from what others link. A pattern is a path within the module, or any import path; a trailing /... takes in
// what is below, and a trailing /* only what is below.
type rule struct {
	who    string
	except []string
	not    []string
	why    string
}

// features are the packages with the program's rules. Each declares the storage and the neighbours it needs.
var features = []string{"./accounts/...", "./billing/...", "./config/...", "./guest/...", "./internal/events/...", "./notify/mail", "./sessions/...", "./sync/...", "./tools/...", "./workspaces/...", "./agent/...", "./automations/...",
	"./executors", "./executors/caches", "./executors/choice", "./executors/command", "./executors/images", "./executors/manager", "./executors/meter", "./executors/metering", "./executors/network", "./executors/pool",
	"./executors/preview", "./executors/settings", "./executors/runner/*"}

// kinds are the executors, one folder each, and what they have in common. Folders in executors/runner are the two ends of a member's machine,
// which know no executor but for the machine's command line, which picks those the machine offers.
var kinds = []string{"./executors/boxlite/...", "./executors/bubblewrap/...", "./executors/cloudflare/...", "./executors/docker/...", "./executors/e2b/...", "./executors/fake/...", "./executors/local/...", "./executors/runner", "./executors/vercel/...",
	"./executors/hostproc", "./executors/sandboxdir", "./executors/gate", "./executors/hosted/...", "./executors/executortest/..."}

// aboutExecutors are the packages in executors that are neither the contract nor a kind.
var aboutExecutors = []string{"./executors/caches", "./executors/choice", "./executors/command", "./executors/images", "./executors/manager", "./executors/meter", "./executors/metering", "./executors/network", "./executors/pool",
	"./executors/preview", "./executors/settings", "./executors/runner/machines"}

// partsOfSessions are what sessions are made of.
var partsOfSessions = []string{"./sessions/history", "./sessions/masks", "./sessions/prompt", "./sessions/question", "./sessions/transcript"}

// workspaceParts are the packages that work on workspaces, from the lowest to the highest: each may know those before it, and none behind it.
// What stands above them all (checks, forge, overlap, reviews, disk) asks them through interfaces of its own.
var workspaceParts = []string{"git", "secretfiles", "sandboxgit", "snapshot", "transfer", "ingest", "stage", "merge", "conflict", "projects", "lifecycle", "reclaim", "origin", "move"}

// database is what only store (and the event line beside PostgreSQL) may link.
var database = []string{"database/sql", "github.com/mattn/go-sqlite3/...", "github.com/jackc/pgx/v5/..."}

// web is what only the server may link.
var web = []string{"github.com/labstack/echo/v4/...", "github.com/olahol/melody/...", "github.com/gorilla/websocket/..."}

func rules() []rule {
	var out []rule
	add := func(who string, except []string, why string, not ...string) {
		out = append(out, rule{who, except, not, why})
	}
	const cli, fleet = "./executors/runner/cli", "./executors/runner/fleet" // fleet shows machines to the executor of machines
	for _, feature := range features {
		add(feature, nil, "a feature declares the storage it needs; store satisfies it, and cmd joins them", "./store/...")
		add(feature, nil, "the server knows the features, not the other way round", "./server/...", "./ui/...")
		add(feature, nil, "cmd wires the program; nothing knows who wires it", "./cmd/...")
		add(feature, []string{cli, fleet}, "a new executor must not need a change in any feature", kinds...)
		add(feature, []string{"./internal/events/pg", "./billing/stripe"}, "all SQL is in store", database...)
		if feature != "./executors/runner/*" { // a member's machine is reached through a WebSocket, which executors/runner/tunnel speaks
			add(feature, []string{"./guest/call"}, "HTTP is the server's business", web...) // guests call through a WebSocket
		}
	}
	for _, base := range []string{"./accounts/...", "./config/...", "./internal/events/...", "./guest/...", "./migrations"} {
		add(base, nil, "it is what the others stand on", "./workspaces/...", "./executors/...", "./sessions/...", "./sync/...")
	}
	add("./guest/...", nil, "the guest runs beside a hostile agent and needs to know nothing of people", "./accounts/...", "./config/...", "./internal/events/...")
	add("./executors/...", nil, "a sandbox does not know what people do in it", "./workspaces/...", "./sessions/...", "./sync/...")
	for _, low := range append([]string{"./executors"}, kinds...) {
		add(low, []string{"./executors/executortest"}, "the contract and its kinds do not know who decides about them", aboutExecutors...) // the tests of kinds run commands
	}
	for low, above := range map[string][]string{"metering": {"choice", "pool", "meter", "manager", "command"}, "choice": {"pool", "meter", "manager", "command"}, "pool": {"meter", "manager", "command"}} {
		for _, a := range above {
			add("./executors/"+low, nil, "what chooses, counts and makes ahead does not know who keeps sandboxes", "./executors/"+a)
		}
	}
	add("./executors/preview", nil, "it parses names and knows no other package of the program", "./executors", "./accounts/...")
	add("./executors/settings", nil, "it keeps what operators set and knows no kind", "./executors", "./accounts/...")
	add("./workspaces/...", nil, "sessions run in workspaces, not the other way round", "./sessions/...", "./sync/...")
	for _, part := range partsOfSessions {
		others := slices.DeleteFunc(slices.Clone(partsOfSessions), func(o string) bool { return o == part })
		add(part, nil, "a part of a session knows its session through one small interface, and no other part", append(others, "./sessions", "./sessions/report", "./sessions/reviewqueue", "./sessions/runs")...)
	}
	above := []string{"./workspaces/checks", "./workspaces/forge", "./workspaces/overlap", "./workspaces/reviews", "./workspaces/disk"}
	for i, part := range workspaceParts {
		not := append([]string{"./workspaces/assembly"}, above...)
		for _, later := range workspaceParts[i+1:] {
			not = append(not, "./workspaces/"+later)
		}
		add("./workspaces/"+part, nil, "what works on workspaces is a tree: see workspaceParts for its order", not...)
	}
	for _, who := range append([]string{"./store", "./sync/...", "./sessions/..."}, above...) {
		add(who, nil, "it names the methods it needs: only who starts the server and the server itself are given all of workspaces", "./workspaces/assembly")
	}
	for _, low := range []string{"./accounts/...", "./billing/...", "./config/...", "./executors/...", "./guest/...", "./internal/...", "./notify/...", "./sessions/...", "./store/...", "./sync/...", "./workspaces/..."} {
		add(low, []string{"./store/toolstore", "./store/threadstore", "./store/jobstore", "./store/automationstore", "./store/tendingstore"}, "tools call what the features offer, not the other way round", "./tools/...")
		add(low, []string{"./store/threadstore"}, "the agent calls what the features offer, not the other way round", "./agent/...")
		add(low, []string{"./store/jobstore", "./store/automationstore", "./store/tendingstore"}, "automations start what the features offer, not the other way round", "./automations/...")
	}
	add("./tools", nil, "the contract knows no tool, and none of the services that tools call", "./tools/*", "./accounts/...", "./billing/...", "./executors/...", "./guest/...", "./notify/...", "./sessions/...", "./sync/...", "./workspaces/...")
	add("./sync/...", nil, "changed files are those of sandboxes; sessions come and go", "./sessions/...", "./workspaces/...")
	for _, end := range []string{"identity", "policy", "machine", "tunnel", "wire", "folder", "guard", "cli"} {
		add("./executors/runner/"+end, nil, "the end on the member's machine knows sandboxes, and nothing of people or what the server keeps", append([]string{"./accounts/...", "./billing/..."}, aboutExecutors...)...)
	}
	add("./tools/...", nil, "the agent calls tools, which know nothing of who calls them", "./agent/...", "./automations/...")
	add("./agent/...", nil, "automations start sessions of the agent, which knows nothing of who starts them", "./automations/...")
	add("./agent/...", nil, "store, server and the model gateway are joined to it by cmd", "./store/...", "./server/...", "./cmd/...", "./billing/gateway")
	add("./agent/providers", nil, "it asks models and knows neither threads nor tools, nor who asks", "./agent", "./accounts/...", "./billing/...", "./config/...", "./executors/...", "./guest/...", "./notify/...", "./sessions/...",
		"./store/...", "./server/...", "./sync/...", "./tools/...", "./workspaces/...", "./cmd/...")
	add("./notify/mail", nil, "it sends what it is given", "./workspaces/...", "./executors/...", "./sessions/...", "./sync/...")
	add("./store", nil, "store and server are leaves: cmd joins them", append([]string{"./server/...", "./ui/...", "./cmd/..."}, kinds...)...)
	for subject, others := range map[string][]string{"rest": {"./server/money", "./server/people", "./server/places"}, "money": {"./server/people", "./server/places"},
		"people": {"./server/money", "./server/places"}, "places": {"./server/money", "./server/people"}} {
		add("./server/"+subject, nil, "subjects of the API stand beside each other: answers that are composed of several are made in running and work", append(others, "./server", "./server/running", "./server/work")...)
	}
	add("./server/...", nil, "store and server are leaves: cmd joins them", append(append([]string{"./store/...", "./cmd/..."}, kinds...), database...)...)
	add("./internal/...", []string{"./internal/arch"}, "internal packages are tools of all features and know none",
		"./accounts/...", "./config/...", "./workspaces/...", "./executors/...", "./guest/...", "./sessions/...", "./sync/...", "./store/...", "./server/...", "./ui/...", "./cmd/...")
	const verbs = "./cmd/parawork"
	add(verbs+"/instance", nil, "what is opened does not know who joins, looks or is asked", verbs, verbs+"/app", verbs+"/doctor", verbs+"/fromconfig", "./server/...")
	add(verbs+"/fromconfig", nil, "it translates, and opens and joins nothing", verbs, verbs+"/app", verbs+"/doctor", "./server", "./server/work", "./server/running")
	add(verbs+"/app", nil, "the system does not know the verbs that start it, nor who looks at it", verbs, verbs+"/doctor")
	add(verbs+"/doctor", nil, "the doctor looks at what the verbs use, and starts nothing", verbs, verbs+"/app", "./server")
	add("./accounts/suspension", nil, "it ends what runs through funcs it is given", "./billing/...", "./notify/...")
	add("./billing/alerts", nil, "it tells who is named and has no part in what runs", "./sessions/...", "./sync/...", "./workspaces/...")
	add("./internal/resident", nil, "it knows the process it is in", "./internal/...")
	add("./cmd/...", nil, "what tests use is not part of the program", "./store/storetest", "./executors/executortest", "./executors/fake", "./tools/tooltest", "./testing/...", "testing")
	return out
}

func match(pattern, path string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	if base, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, path) })
}

// chain returns the shortest way from one package to another.
func chain(all map[string]pkg, from, to string) string {
	came := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == to {
			way := to
			for at = came[at]; at != ""; at = came[at] {
				way = at + " -> " + way
			}
			return way
		}
		for _, imp := range all[at].Imports {
			if _, seen := came[short(imp)]; !seen {
				came[short(imp)] = at
				queue = append(queue, short(imp))
			}
		}
	}
	return from + " -> ... -> " + to // through somebody else's package
}

// violations returns what among the packages breaks a rule.
func violations(all map[string]pkg) []string {
	var out []string
	for _, r := range rules() {
		for path, p := range all {
			if !match(r.who, path) || matchAny(r.except, path) {
				continue
			}
			for _, dep := range p.Deps {
				if d := short(dep); matchAny(r.not, d) {
					out = append(out, fmt.Sprintf("%s must not depend on %s: %s.\n\t%s", path, d, r.why, chain(all, path, d)))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	all := list(t, nil, "./...")
	for _, v := range violations(all) {
		t.Error(v)
	}
	// What the payment service's library looks like is one package's business: the rest speaks of plans, seats and invoices.
	for path, p := range all {
		if path != "./billing/stripe" && slices.ContainsFunc(p.Imports, func(i string) bool { return strings.HasPrefix(i, "github.com/stripe/stripe-go") }) {
			t.Errorf("%s imports stripe-go: only ./billing/stripe may", path)
		}
		if path != "./workspaces/forge" && slices.ContainsFunc(p.Imports, func(i string) bool {
			return matchAny([]string{"github.com/google/go-github/...", "gitlab.com/gitlab-org/api/...", "code.gitea.io/sdk/..."}, i)
		}) {
			t.Errorf("%s imports a forge's library: only ./workspaces/forge may", path)
		}
	}
}

// The rules must bite: packages that break each of them.
func TestRulesBite(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{
		"accounts": module + "store", "sessions": module + "server", "sync": module + "executors/local", "workspaces": "database/sql",
		"internal/events": "github.com/jackc/pgx/v5", "server": module + "store", "server/money": module + "server/people", "store": module + "server", "guest/daemon": module + "accounts",
		"internal/id": module + "config", "cmd/parawork": "testing", "cmd/parawork/doctor": module + "server", "cmd/parawork/app": module + "cmd/parawork/doctor", "cmd/parawork/instance": module + "cmd/parawork/app",
		"cmd/parawork/fromconfig": module + "cmd/parawork/app", "accounts/suspension": module + "billing/quota", "billing/alerts": module + "sessions", "executors": module + "executors/local", "executors/local": module + "sessions",
		"executors/runner/wire": module + "executors/runner", "executors/runner/machine": module + "executors/runner/machines", "executors/e2b": module + "executors/network",
		"executors/network": module + "executors/docker", "executors/choice": module + "executors/manager", "executors/pool": module + "executors/command", "workspaces/forge": module + "sessions", "billing/gateway": module + "store", "executors/runner/machines": "database/sql",
		"sessions/history": module + "sessions", "sessions/prompt": module + "sessions/question",
		"workspaces/git": module + "workspaces/sandboxgit", "workspaces/stage": module + "workspaces/merge", "workspaces/checks": module + "workspaces/assembly",
		"tools": module + "executors/command", "tools/run": module + "store", "sessions/masks": module + "tools",
		"agent/providers": module + "agent", "agent": module + "store", "tools/files": module + "agent", "sessions/question": module + "agent/providers",
	} {
		all := map[string]pkg{"./" + from: {Imports: []string{module + "between"}, Deps: []string{module + "between", to}}, "./between": {Imports: []string{to}, Deps: []string{to}}}
		v := violations(all)
		if len(v) == 0 || !slices.ContainsFunc(v, func(s string) bool { return strings.Contains(s, "./"+from+" -> ./between -> "+short(to)) }) {
			t.Errorf("%s on %s: %q", from, to, v)
		}
	}
	fine := map[string]pkg{"./internal/events/pg": {Deps: []string{"github.com/jackc/pgx/v5", "sync", "sync/atomic"}}, "./sessions": {Deps: []string{module + "sessions/agents", module + "executors"}}}
	if v := violations(fine); len(v) > 0 {
		t.Errorf("allowed, but: %q", v)
	}
}

func TestNoExecutorKnowsAnother(t *testing.T) {
	t.Parallel()
	tools := []string{"./executors/hostproc", "./executors/sandboxdir", "./executors/gate", "./executors/hosted", "./executors/hosted/hostedtest"} // no executors: what some of them have in common
	kind := func(path string) int {
		return slices.IndexFunc(kinds, func(k string) bool { return match(k, path) })
	}
	for path, p := range list(t, nil, "./executors/...") {
		if kind(path) < 0 || slices.Contains(tools, path) {
			continue
		}
		for _, dep := range p.Deps {
			if d := short(dep); kind(d) >= 0 && kind(d) != kind(path) && !slices.Contains(tools, d) {
				t.Errorf("%s must not depend on %s: an executor is one folder that can be read, and removed, alone", path, d)
			}
		}
	}
}

func TestOnlyItsExecutorSpeaksToDocker(t *testing.T) {
	t.Parallel()
	for path, p := range list(t, nil, "./...") {
		for _, dep := range p.Imports {
			if matchAny([]string{"github.com/docker/...", "github.com/moby/...", "github.com/containerd/..."}, dep) && path != "./executors/docker" {
				t.Errorf("%s imports %s: the engine's client is executors/docker's alone", path, dep)
			}
		}
	}
}

// The slim binary goes into every sandbox, static and small, beside a hostile agent: no database, no web framework, no engine.
func TestTheGuestIsSlim(t *testing.T) {
	t.Parallel()
	all := list(t, []string{"CGO_ENABLED=0"}, "./cmd/parawork-guest")
	bans := map[string]string{
		"database/sql":                      "it keeps files, not rows",
		"github.com/mattn/go-sqlite3/...":   "it is C, and the binary is static",
		"github.com/jackc/pgx/v5/...":       "it must not reach the database",
		"github.com/labstack/echo/v4/...":   "it speaks the guest's protocol over one pipe",
		"github.com/olahol/melody/...":      "it has no browsers",
		"github.com/docker/...":             "the executor makes the place, the guest is in it",
		"github.com/moby/...":               "the executor makes the place, the guest is in it",
		"github.com/stripe/...":             "money is not its business",
		"github.com/go-git/go-git/v5/...":   "it runs git, which is where the agent is",
		"github.com/klauspost/compress/...": "packing is the host's: the guest's copy of the output is short-lived",
		"runtime/cgo":                       "it must run on any Linux, without a C library",
		"./store/...":                       "it remembers nothing of people",
		"./server/...":                      "it is the other end",
		"./ui/...":                          "it has no screen",
		"./accounts/...":                    "it knows no people",
		"./workspaces/...":                  "it knows one folder",
		"./sessions/...":                    "it runs processes; what they mean is the host's",
		"./executors/...":                   "it is what an executor starts",
		"./config/...":                      "its settings come from who starts it",
	}
	p, ok := all["./cmd/parawork-guest"]
	if !ok {
		t.Fatal("there is no cmd/parawork-guest")
	}
	for _, dep := range p.Deps {
		for ban, why := range bans {
			if match(ban, short(dep)) {
				t.Errorf("cmd/parawork-guest must not link %s: %s", dep, why)
			}
		}
	}
}

// The program members download is static and small: it makes sandboxes and speaks to one server, and knows nothing of what a server keeps.
func TestTheRunnerIsSlim(t *testing.T) {
	t.Parallel()
	bans := map[string]string{
		"database/sql":                    "it keeps files, not rows",
		"github.com/mattn/go-sqlite3/...": "it is C, and the binary is static",
		"github.com/jackc/pgx/v5/...":     "it must not reach a database",
		"github.com/labstack/echo/v4/...": "it answers one server, in the tunnel",
		"github.com/olahol/melody/...":    "it has no browsers",
		"github.com/stripe/...":           "money is not its business",
		"github.com/go-git/go-git/v5/...": "it runs the machine's own git",
		"runtime/cgo":                     "it must run on any Linux, without a C library",
		"./store/...":                     "it remembers nothing of people",
		"./server/...":                    "it is the other end",
		"./ui/...":                        "it has no screen",
		"./accounts/...":                  "it knows no people",
		"./sessions/...":                  "it makes places; what goes on in them is the server's",
		"./executors/runner/machines/...": "it is the other end",
		"./executors/e2b/...":             "it runs on the machine it is on",
		"./config/...":                    "its owner's file decides",
	}
	// What agents are made of is installed in its containers and looked for on its machine; the package that knows it reads records, too.
	known := []string{"./sessions/agents", "./sessions/conversation", "./sessions/usagelimit"}
	for _, system := range []string{"linux", "darwin"} {
		p, ok := list(t, []string{"CGO_ENABLED=0", "GOOS=" + system}, "./cmd/parawork-runner")["./cmd/parawork-runner"]
		if !ok {
			t.Fatal("there is no cmd/parawork-runner")
		}
		for _, dep := range p.Deps {
			for ban, why := range bans {
				if match(ban, short(dep)) && !slices.Contains(known, short(dep)) {
					t.Errorf("cmd/parawork-runner on %s must not link %s: %s", system, dep, why)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	t.Parallel()
	for path, p := range list(t, nil, "./...") {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment: say what it knows and what it refuses to know", path)
		}
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base"}, p.Name) {
			t.Errorf("%s: the name %q says nothing", path, p.Name)
		}
		if dir := filepath.Base(path); p.Name != "main" && p.Name != dir && path != "./sync" {
			t.Errorf("%s is package %s: name the folder like the package", path, p.Name)
		}
	}
}

// Importing a package must do nothing: time, randomness and the world come in through Config.
func TestNoPackageHasAnInit(t *testing.T) {
	t.Parallel()
	for path, p := range list(t, nil, "./...") {
		for _, name := range p.GoFiles {
			if strings.HasSuffix(name, ".gen.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("%s/%s: %v", path, name, err)
				continue
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s/%s has an init function", path, name)
				}
			}
		}
	}
}

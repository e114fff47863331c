package server

import (
	"net/http"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// described reads openapi.yaml: "GET /teams/:team" to its operationId.
func described(t *testing.T) map[string]string {
	t.Helper()
	var spec struct {
		Paths map[string]map[string]yaml.Node `yaml:"paths"`
	}
	if err := yaml.Unmarshal(api.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, item := range spec.Paths {
		path = strings.NewReplacer("{", ":", "}", "").Replace(path)
		for method, node := range item {
			if method == "parameters" {
				continue
			}
			var op struct {
				OperationID string `yaml:"operationId"`
			}
			if err := node.Decode(&op); err != nil || op.OperationID == "" {
				t.Fatalf("%s %s has no operationId (%v)", method, path, err)
			}
			out[strings.ToUpper(method)+" "+rest.Base+path] = op.OperationID
		}
	}
	if len(out) < 50 {
		t.Fatalf("only %d operations were read", len(out))
	}
	return out
}

// Every route has a rule: each belongs to an operation of openapi.yaml or to the few that describe the API itself, and each of
// those has its entry in the table.
func TestEveryRouteHasARule(t *testing.T) {
	t.Parallel()
	s := newHarness(t).server
	ops := described(t)
	byPath := map[string]string{"GET " + rest.Base + "/openapi.yaml": "getSpec", "HEAD " + rest.Base + "/health": "getHealth"}
	for path := range docsFiles {
		byPath["GET /api/docs"+path] = "getDocs"
	}
	const resource = "/.well-known/oauth-protected-resource"
	byPath["GET "+rest.Base+resource+"/mcp"] = "getProtectedResource"
	for _, path := range []string{resource, resource + "/mcp", "/.well-known/oauth-authorization-server", "/oauth/register", "/oauth/token", "/oauth/revoke"} {
		byPath["OPTIONS "+rest.Base+path] = "getAuthorizationServer"
	}
	for k, op := range ops {
		byPath[k] = op
	}
	registered := map[string]bool{}
	for _, r := range s.echo.Routes() {
		key := r.Method + " " + r.Path
		registered[key] = true
		op, known := byPath[key]
		if !known {
			t.Errorf("%s is no operation of openapi.yaml", key)
			continue
		}
		if _, ok := policy[op]; !ok {
			t.Errorf("%s (%s) has no rule in policy.go", key, op)
		}
	}
	used := map[string]bool{}
	for key, op := range byPath {
		used[op] = true
		if !registered[key] {
			t.Errorf("%s (%s) is described but not served", key, op)
		}
	}
	for op, r := range policy {
		if !used[op] {
			t.Errorf("policy.go has a rule for %s, which is no operation", op)
		}
		if (r.access == member) != (r.find != nil && r.action != "") || r.access < anyone || r.access > member {
			t.Errorf("the rule of %s is incomplete: %+v", op, r)
		}
	}
}

// What openapi.yaml calls public is what the table calls public, and nothing else.
func TestPublicOperationsAreThoseOfTheSpec(t *testing.T) {
	t.Parallel()
	var spec struct {
		Paths map[string]map[string]yaml.Node `yaml:"paths"`
	}
	if err := yaml.Unmarshal(api.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	for path, item := range spec.Paths {
		for method, node := range item {
			if method == "parameters" {
				continue
			}
			var op struct {
				OperationID string      `yaml:"operationId"`
				Security    *[]any      `yaml:"security"`
				Parameters  []yaml.Node `yaml:"parameters"`
			}
			if err := node.Decode(&op); err != nil {
				t.Fatal(err)
			}
			public := op.Security != nil && len(*op.Security) == 0
			if got := policy[op.OperationID].access == anyone; got != public {
				t.Errorf("%s %s: public by the table %v, by the spec %v", method, path, got, public)
			}
			repeat := false
			for _, p := range op.Parameters {
				var ref struct {
					Ref string `yaml:"$ref"`
				}
				if p.Decode(&ref) == nil && strings.HasSuffix(ref.Ref, "/IdempotencyKey") {
					repeat = true
				}
			}
			if got := policy[op.OperationID].repeat; got != repeat {
				t.Errorf("%s %s: takes an Idempotency-Key by the table %v, by the spec %v", method, path, got, repeat)
			}
		}
	}
}

// The matrix: every operation, asked by everybody. The guard alone decides; nothing is carried out.
func TestMatrixOfRolesAndOperations(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.server.Open()
	people := h.people(t)
	table := readTable(t)
	for op, r := range policy {
		if r.socket {
			continue // asked through sockets below
		}
		for who, token := range people.tokens {
			got := h.ask(t, op, token, people)
			want := http.StatusOK
			switch {
			case r.access == anyone:
			case token == "":
				want = http.StatusUnauthorized
			case r.access == signedIn:
			case r.access == operators || r.access == scrapers:
				if who != "operator" {
					want = http.StatusForbidden
				}
			case who == "outsider" || who == "homeless" || who == "operator":
				want = http.StatusNotFound
			case rolesTable[table[op].who][who] == "404 not_found": // somebody else's alone
				want = http.StatusNotFound
			case !allows(r, who):
				want = http.StatusForbidden
			}
			if got.status != want {
				t.Errorf("%s asked by %s: %d %s, want %d", op, who, got.status, got.code, want)
			}
			if r.access == member && got.status == http.StatusForbidden && (got.code != "forbidden" || got.details["action"] != string(r.action)) {
				t.Errorf("%s refused to %s with %s %v, want forbidden naming %s", op, who, got.code, got.details, r.action)
			}
		}
	}
}

// What does not exist and what is not yours look the same.
func TestNotFoundAndNotYoursLookTheSame(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.server.Open()
	people := h.people(t)
	nothing := people
	nothing.ids = map[string]string{"team": "no-such-team", "project": "prj_00000000000000000000000000", "workspace": "ws_00000000000000000000000000",
		"session": "ses_00000000000000000000000000", "command": "cmd_00000000000000000000000000", "prompt": "prm_00000000000000000000000000", "run": "run_00000000000000000000000000", "webhook": "whk_00000000000000000000000000", "image": "img_00000000000000000000000000", "conflict": "sco_00000000000000000000000000", "link": "wln_00000000000000000000000000", "runner": "rnr_00000000000000000000000000", "runner token": "rtk_00000000000000000000000000", "invite": "inv_00000000000000000000000000", "subagent": "sub_00000000000000000000000000", "sandbox": "asb_00000000000000000000000000"}
	hostile := people
	hostile.ids = map[string]string{"team": "../x", "project": "a\x00b", "workspace": "\xff", "session": strings.Repeat("x", 5000), "command": "' OR 1=1", "prompt": "\n", "run": "%00", "webhook": "?", "image": "../../x", "conflict": "../x", "link": "../x", "runner": "a/b", "runner token": "'", "invite": "../x", "subagent": "' OR 1=1", "sandbox": "' OR 1=1"}
	for op, r := range policy {
		if r.access != member || r.socket {
			continue
		}
		theirs := h.ask(t, op, people.tokens["outsider"], people)
		missing := h.ask(t, op, people.tokens["owner"], nothing)
		if theirs.status != 404 || theirs.body != missing.body {
			t.Errorf("%s: an outsider sees %d %q, an owner of nothing %d %q", op, theirs.status, theirs.body, missing.status, missing.body)
		}
		if odd := h.ask(t, op, people.tokens["owner"], hostile); odd.status != 404 || odd.body != missing.body {
			t.Errorf("%s with a hostile id: %d %q", op, odd.status, odd.body)
		}
	}
}

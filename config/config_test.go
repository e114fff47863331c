package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/kinds"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// env makes an environment of a map.
func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

// load writes text as config.json and loads it.
func load(t *testing.T, text string, vars map[string]string) (*config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(file, env(vars), agents.Programs(), places())
}

func must(t *testing.T, text string, vars map[string]string) *config.Config {
	t.Helper()
	c, err := load(t, text, vars)
	if err != nil {
		t.Fatalf("Load(%s) = %v", text, err)
	}
	return c
}

func TestWithoutAFileTheDefaultsHold(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	c, err := config.Load("", env(nil), agents.Programs(), places())
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default(agents.Programs(), places())
	want.DataDir = filepath.Join(dir, "data")
	if !c.Equal(want) {
		t.Errorf("got %s", c)
	}
	// A config.json in the working folder is found; PARAWORK_CONFIG is stronger; a named file must exist.
	if err := os.WriteFile("config.json", []byte(`{"log":{"level":"debug"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err = config.Load("", env(nil), agents.Programs(), places()); err != nil || c.Log.Level != "debug" || c.File != filepath.Join(dir, "config.json") {
		t.Errorf("config.json in the working folder: %v, %v", c, err)
	}
	if _, err = config.Load("", env(map[string]string{"PARAWORK_CONFIG": "other.json"}), agents.Programs(), places()); err == nil || !strings.Contains(err.Error(), "other.json") {
		t.Errorf("PARAWORK_CONFIG: %v", err)
	}
	if _, err = config.Load("missing.json", env(nil), agents.Programs(), places()); !fault.Is(err, fault.Invalid) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestWrongKeysAndValuesAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{"sever":{}}`:                                         {`"sever"`, `"server"`},
		`{"server":{"lisen":"x"}}`:                             {`"server.lisen"`, `"server.listen"`},
		`{"server":{"Listen":"x"}}`:                            {`"server.Listen"`, `"server.listen"`},
		`{"listen":"127.0.0.1:1"}`:                             {`"listen"`, `"server.listen"`},
		`{"data_dir":"x"}`:                                     {`"data_dir"`, `"dataDir"`},
		`{"sandboxing":{"e2b":{"apikey":"x"}}}`:                {`"sandboxing.e2b.apikey"`, `"sandboxing.e2b.apiKey"`},
		`{"agents":{"codex":{"comand":"x"}}}`:                  {`"agents.codex.comand"`, `"agents.codex.command"`},
		`{"agents":{"codex":{"args":["x"]}}}`:                  {`"agents.codex.args"`},
		`{"accounts":{"providers":{"corp":{"isuer":"x"}}}}`:    {`"accounts.providers.corp.isuer"`, `"accounts.providers.corp.issuer"`},
		`{"accounts":{"providers":{"corp":{"clientId":"x"}}}}`: {"accounts.providers.corp.issuer"},
		`{"accounts":{"providers":{"corp":{"clientId":"x","issuer":"http://login.example.com"}}}}`:                                              {"accounts.providers.corp.issuer", "https"},
		`{"accounts":{"providers":{"Corp":{"clientId":"x","issuer":"https://login.example.com"}}}}`:                                             {"accounts.providers.Corp", "lower-case"},
		`{"accounts":{"providers":{"corp":{"issuer":"https://login.example.com"}}}}`:                                                            {"accounts.providers.corp.clientId"},
		`{"accounts":{"providers":{"gh":{"kind":"github","clientId":"x"}}}}`:                                                                    {"accounts.providers.gh.clientSecret"},
		`{"accounts":{"providers":{"gh":{"kind":"github","clientId":"x","clientSecret":"y","trustSecondFactor":true}}}}`:                        {"accounts.providers.gh.trustSecondFactor"},
		`{"accounts":{"providers":{"corp":{"clientId":"x","issuer":"https://login.example.com","groups":{"g":[{"team":"t","role":"king"}]}}}}}`: {"accounts.providers.corp.groups.g[0].role"},
		`{"zzzzzzzz":1}`:                                             {`"zzzzzzzz"`, "docs/config.md"},
		`{"server":{"listen":8080}}`:                                 {"server.listen", "string", "number"},
		`{"server":[]}`:                                              {"server", "object"},
		`{"server":{"trustedProxies":"10.0.0.1"}}`:                   {"server.trustedProxies", "array"},
		`{"server":{"trustedProxies":["10.0.0.1",2]}}`:               {"server.trustedProxies[1]", "string"},
		`{"server":{"trustedProxies":["10.0.0.300"]}}`:               {"server.trustedProxies", "10.0.0.300"},
		`{"outgoing":{"allow":["lan"]}}`:                             {"outgoing.allow", "lan"},
		`{"server":{"allowInsecureHttp":"yes"}}`:                     {"server.allowInsecureHttp", "true or false"},
		`{"sandboxing":{"monthlyBudgetUsd":1.5}}`:                    {"sandboxing.monthlyBudgetUsd", "whole number", "1.5"},
		`{"sandboxing":{"monthlyBudgetUsd":-1}}`:                     {"sandboxing.monthlyBudgetUsd"},
		`{"sandboxing":{"local":{"resourceLimits":{"maxCpu":-1}}}}`:  {"sandboxing.local.resourceLimits"},
		`{"sandboxing":{"defaultProvider":"kvm"}}`:                   {"sandboxing.defaultProvider", "bubblewrap", "kvm"},
		`{"sandboxing":{"e2b":{"apiUrl":"ftp://api.example"}}}`:      {"sandboxing.e2b.apiUrl", "https"},
		`{"sandboxing":{"e2b":{"proxy":"gopher://x"}}}`:              {"sandboxing.e2b.proxy"},
		`{"server":{"listen":"8080"}}`:                               {"server.listen", "127.0.0.1:8080"},
		`{"server":{"listen":"127.0.0.1:99999"}}`:                    {"server.listen"},
		`{"server":{"publicUrl":"parawork.example.com"}}`:            {"server.publicUrl"},
		`{"server":{"publicUrl":"https://u:p@example.com"}}`:         {"server.publicUrl"},
		`{"server":{"publicUrl":"https://example.com/pw"}}`:          {"server.publicUrl", "without a path"},
		`{"server":{"publicUrl":"http://parawork.example.com"}}`:     {"server.publicUrl", "https"},
		`{"database":{"url":"mysql://x"}}`:                           {"database.url", "postgres://"},
		`{"dataDir":""}`:                                             {"dataDir"},
		`{"log":{"level":"loud"}}`:                                   {"log.level", "debug", "loud"},
		`{"accounts":{"password":false,"passkeys":false}}`:           {"accounts.password"},
		`{"accounts":{"sessionIdleHours":900}}`:                      {"accounts.sessionMaxHours"},
		`{"projects":{"branchPrefix":"a b"}}`:                        {"projects.branchPrefix"},
		`{"projects":{"branchPrefix":"-x"}}`:                         {"projects.branchPrefix"},
		`{"projects":{"branchPrefix":"../"}}`:                        {"projects.branchPrefix"},
		`{"projects":{"copyIgnored":["../x"]}}`:                      {"projects.copyIgnored", "../x"},
		`{"projects":{"copyIgnored":["/etc/passwd"]}}`:               {"projects.copyIgnored"},
		`{"projects":{"allowedRoots":[""]}}`:                         {"projects.allowedRoots"},
		`{"agents":{"mine":{}}}`:                                     {"agents.mine.command"},
		`{"agents":{"setup":{"command":"x"}}}`:                       {"agents.setup"},
		`{"agents":{"My Agent":{"command":"x"}}}`:                    {"agents.My Agent"},
		`{"agents":{"mine":{"command":"x","prompt":"shout"}}}`:       {"agents.mine.prompt", "paste"},
		`{"agents":{"codex":{"prompt":"paste"}}}`:                    {"agents.codex.prompt"},
		`{"agents":{"mine":{"command":"x","env":{"A=B":"c"}}}}`:      {"agents.mine.env", "A=B"},
		`{"preview":{"baseDomain":"https://x"}}`:                     {"preview.baseDomain"},
		`{"billing":{"stripe":{"webhookSecrets":["abc"]}}}`:          {"billing.stripe.webhookSecrets", "whsec_"},
		`{"billing":{"stripe":{"webhookSecrets":["whsec_"]}}}`:       {"billing.stripe.webhookSecrets", "signing secret"},
		`{"billing":{"stripe":{"apiBase":"http://api.stripe.com"}}}`: {"billing.stripe.apiBase"},
		`{"billing":{"stripe":{"secretKey":"pk_live_abc"}}}`:         {"billing.stripe.secretKey", "sk_live_"},
		`{"billing":{"pastDueDays":0}}`:                              {"billing.pastDueDays"},
		`{"log":{"level":"info"},"log":{}}`:                          {`"log"`, "duplicate"},
		"{\n  \"log\": {,}\n}":                                       {"line 2"},
		`{"log":{}} x`:                                               {"line 1"},
		`{"log":{}} {}`:                                              {"line 1", "after"},
		`{`:                                                          {"too early"},
		``:                                                           {"too early"},
		`[]`:                                                         {"object"},
		strings.Repeat(`{"a":`, 100):                                 {"nested"},
		`{"server":{"listen":"${NOT_SET}"}}`:                         {"server.listen", "NOT_SET"},
		`{"server":{"listen":"${"}}`:                                 {"server.listen", "$${"},
		`{"server":{"listen":"${A B}"}}`:                             {"server.listen"},
		`{"agents":{"codex":{"env":{"KEY":"${NOT_SET}"}}}}`:          {"agents.codex.env.KEY", "NOT_SET"},
		`{"projects":{"allowedRoots":["${NOT_SET}/x"]}}`:             {"projects.allowedRoots[0]", "NOT_SET"},
	} {
		_, err := load(t, text, nil)
		if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != "invalid_config" {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not name %q", text, err, w)
			}
		}
	}
}

func TestAllProblemsAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := load(t, `{"sever":{},"log":{"level":1},"dataDirs":"x"}`, nil)
	for _, w := range []string{"sever", "log.level", "dataDirs"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v does not name %s", err, w)
		}
	}
}

func TestPlainHTTPBeyondThisMachineNeedsAWord(t *testing.T) {
	t.Parallel()
	const refused, allowed = false, true
	for text, want := range map[string]bool{
		`{"listen":"127.0.0.1:0"}`:                                       allowed,
		`{"listen":"localhost:80"}`:                                      allowed,
		`{"listen":"[::1]:80"}`:                                          allowed,
		`{"listen":"127.9.9.9:80"}`:                                      allowed,
		`{"listen":":8080"}`:                                             refused,
		`{"listen":"0.0.0.0:8080"}`:                                      refused,
		`{"listen":"[::]:8080"}`:                                         refused,
		`{"listen":"10.0.0.1:8080"}`:                                     refused,
		`{"listen":"myhost:8080"}`:                                       refused,
		`{"listen":"0.0.0.0:8080","allowInsecureHttp":true}`:             allowed,
		`{"listen":"0.0.0.0:8080","publicUrl":"https://pw.example.com"}`: refused,
		`{"listen":"0.0.0.0:8080","publicUrl":"https://pw.example.com","trustedProxies":["10.0.0.0/8"]}`: allowed,
		`{"listen":"0.0.0.0:8080","publicUrl":"http://pw.example.com","trustedProxies":["10.0.0.0/8"]}`:  refused,
		`{"listen":"127.0.0.1:80","publicUrl":"http://localhost:8080"}`:                                  allowed,
		`{"listen":"127.0.0.1:80","publicUrl":"http://pw.example.com","allowInsecureHttp":true}`:         allowed,
	} {
		_, err := load(t, `{"server":`+text+`}`, nil)
		if (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil && !strings.Contains(err.Error(), "allowInsecureHttp") {
			t.Errorf("%s: %q does not name the cure", text, err)
		}
	}
}

func TestAgentsKeepWhatIsNotNamed(t *testing.T) {
	t.Parallel()
	c := must(t, `{"agents":{"claude-code":{"defaultArgs":["-x"]},"codex":{"enabled":false},"aider":{"command":"aider"}}}`, nil)
	if a := c.Agents["claude-code"]; !a.Enabled || a.Command != "claude" || !slices.Equal(a.DefaultArgs, []string{"-x"}) {
		t.Errorf("claude-code = %+v", a)
	}
	if a := c.Agents["codex"]; a.Enabled || a.Command != "codex" {
		t.Errorf("codex = %+v", a)
	}
	if a := c.Agents["aider"]; !a.Enabled || a.Command != "aider" {
		t.Errorf("aider = %+v", a)
	}
	if a, ok := c.Agents["opencode"]; !ok || !a.Enabled {
		t.Errorf("opencode = %+v", a)
	}
}

func TestLocalMayBeLeftOpen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`{}`: "<nil>", `{"enabled":null}`: "<nil>", `{"enabled":true}`: "true", `{"enabled":false}`: "false"} {
		got := "<nil>"
		if e := must(t, `{"sandboxing":{"local":`+text+`}}`, nil).Sandboxing.Of("local"); e.Said("enabled") {
			got = fmt.Sprint(e.On("enabled"))
		}
		if got != want {
			t.Errorf("%s: enabled = %s", text, got)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	vars := map[string]string{
		"HOST": "127.0.0.1", "E2B_API_KEY": "e2b_1", "E2B_DOMAIN": "e2b.corp.example", "E2B_API_URL": "http://api.corp.example:3000", "E2B_DEBUG": "true", "PARAWORK_SERVER_LISTEN": "127.0.0.1:0", "PARAWORK_DATA_DIR": "/srv/pw",
		"PARAWORK_SERVER_TRUSTED_PROXIES": "10.0.0.1, 10.1.0.0/16", "PARAWORK_PROJECTS_ALLOW_FILE_URLS": "true",
		"PARAWORK_SANDBOXING_MONTHLY_BUDGET_USD": "7", "PARAWORK_SANDBOXING_LOCAL_ENABLED": "false",
		"PARAWORK_PROJECTS_BRANCH_PREFIX": "x${y}/", "PARAWORK_SANDBOXING_LOCAL_RESOURCE_LIMITS_MAX_CPU": "1.5",
	}
	c := must(t, `{"server":{"listen":"${HOST}:9","publicUrl":"http://${HOST}:9"},"agents":{"codex":{"defaultArgs":["$${HOST}","a${HOST}b${HOST}"]}}}`, vars)
	if c.Server.Listen != "127.0.0.1:0" || c.Server.PublicURL != "http://127.0.0.1:9" || c.DataDir != "/srv/pw" {
		t.Errorf("got %+v in %s", c.Server, c.DataDir)
	}
	if got := c.Agents["codex"].DefaultArgs; !slices.Equal(got, []string{"${HOST}", "a127.0.0.1b127.0.0.1"}) {
		t.Errorf("defaultArgs = %q", got)
	}
	if len(c.Server.Proxies()) != 2 || c.Server.Proxies()[0].String() != "10.0.0.1/32" {
		t.Errorf("proxies = %v", c.Server.Proxies())
	}
	if !c.Projects.AllowFileURLs || c.Sandboxing.MonthlyBudgetUSD != 7 || !c.Sandboxing.Of("local").Said("enabled") || c.Sandboxing.Of("local").On("enabled") ||
		c.Projects.BranchPrefix != "x${y}/" || c.Sandboxing.Of("e2b").Text("apiKey") != "e2b_1" || c.Sandboxing.Of("e2b").Text("domain") != "e2b.corp.example" || c.Sandboxing.Of("e2b").Text("apiUrl") != "http://api.corp.example:3000" ||
		!c.Sandboxing.Of("e2b").On("debug") || !c.Given("sandboxing.e2b.domain") || c.Given("sandboxing.e2b.sandboxUrl") || c.Sandboxing.Of("local").Cores("resourceLimits.maxCpu") != 1.5 {
		t.Errorf("got %s", c)
	}
	for name, bad := range map[string]string{"PARAWORK_PROJECTS_ALLOW_FILE_URLS": "maybe", "PARAWORK_SANDBOXING_MONTHLY_BUDGET_USD": "a lot"} {
		if _, err := load(t, `{}`, map[string]string{name: bad}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, bad, err)
		}
	}
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("url", "postgres://u:hunter2@h/d\n")
	write("e2b", "e2b_x")
	write("hooks", "whsec_first_one\nwhsec_second_one\n")
	write("sso", "of the client\n")
	write("empty", "\n")
	write("config.json", `{"database":{"urlFile":"url"},"sandboxing":{"e2b":{"apiKeyFile":"./e2b"}},"billing":{"stripe":{"webhookSecretsFile":"hooks"}},
		"accounts":{"providers":{"gh":{"kind":"github","clientId":"x","clientSecretFile":"sso"}}}}`)
	c, err := config.Load(filepath.Join(dir, "config.json"), env(nil), agents.Programs(), places())
	if err != nil {
		t.Fatal(err)
	}
	if c.Database.URL != "postgres://u:hunter2@h/d" || c.Sandboxing.Of("e2b").Text("apiKey") != "e2b_x" || len(c.Billing.Stripe.WebhookSecrets) != 2 || c.Accounts.Providers["gh"].ClientSecret != "of the client" {
		t.Errorf("got %+v %+v %+v", c.Database, c.Sandboxing.Of("e2b"), c.Billing)
	}
	for text, want := range map[string]string{
		`{"database":{"url":"sqlite","urlFile":"url"}}`: "database.url is set too",
		`{"database":{"urlFile":"none"}}`:               "cannot be read",
		`{"database":{"urlFile":"empty"}}`:              "single line",
		`{"database":{"urlFile":"hooks"}}`:              "single line",
		`{"database":{"urlFile":"."}}`:                  "not a regular file",
	} {
		write("config.json", text)
		if _, err := config.Load(filepath.Join(dir, "config.json"), env(nil), agents.Programs(), places()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "database.urlFile") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPathsCountFromTheFile(t *testing.T) {
	t.Parallel()
	c := must(t, `{"dataDir":"d","projects":{"allowedRoots":["../x","~/code","/abs/./y"]}}`, map[string]string{"HOME": "/home/ada"})
	dir := filepath.Dir(c.File)
	want := []string{filepath.Join(filepath.Dir(dir), "x"), "/home/ada/code", "/abs/y"}
	if c.DataDir != filepath.Join(dir, "d") || !slices.Equal(c.Projects.AllowedRoots, want) {
		t.Errorf("dataDir %s, roots %v", c.DataDir, c.Projects.AllowedRoots)
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	t.Parallel()
	c := must(t, `{"database":{"url":"postgres://pw:hunter2@h/d?sslpassword=hunter2"},"sandboxing":{"e2b":{"apiKey":"hunter2"}},
		"billing":{"stripe":{"secretKey":"sk_test_hunter2","webhookSecrets":["whsec_hunter2hunter2"]}},"agents":{"codex":{"env":{"K":"hunter2"}}},"accounts":{"providers":{"gh":{"kind":"github","clientId":"x","clientSecret":"hunter2"}}}}`, nil)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", c)
	for _, printed := range []string{c.Redacted(), c.String(), log.String(), fmt.Sprintf("%v %s %+v", c, c, c)} {
		if strings.Contains(printed, "hunter2") {
			t.Errorf("printed: %s", printed)
		}
	}
	if !strings.Contains(c.Redacted(), "postgres://pw:hidden@h/d") || !json.Valid([]byte(c.Redacted())) {
		t.Error(c.Redacted())
	}
	if c.Sandboxing.Of("e2b").Text("apiKey") != "hunter2" || c.Agents["codex"].Env["K"] != "hunter2" || c.Billing.Stripe.WebhookSecrets[0] != "whsec_hunter2hunter2" {
		t.Error("printing changed the configuration")
	}
}

// The example holds every key with its default, beside an agent and a provider of one's own; the documentation lists the same keys and defaults.
func TestExampleAndDocumentationAreComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../config.example.json")
	if err != nil {
		t.Fatal(err)
	}
	c := must(t, string(text), nil)
	want := must(t, `{}`, nil)
	want.File, want.DataDir = c.File, filepath.Join(filepath.Dir(c.File), "data")
	own := c.Agents["aider"]
	delete(c.Agents, "aider")
	company := c.Accounts.Providers["company"]
	delete(c.Accounts.Providers, "company")
	if company.Issuer == "" || company.Enabled || company.Groups["engineers"][0].Role != "member" {
		t.Errorf("the provider of the example: %+v", company)
	}
	if own.Command == "" || own.Prompt.Delivery == "" || !c.Equal(want) {
		t.Errorf("the example is not the defaults and an agent:\n%s\n%s", c, want)
	}

	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	inExample := map[string]any{}
	paths("", tree, inExample)

	doc, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	inDoc := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+?) \\| ").FindAllStringSubmatch(string(doc), -1) {
		inDoc[m[1]] = m[2]
	}
	keys := config.Keys(places())
	for _, k := range keys {
		v, ok := inExample[k]
		if !ok {
			t.Errorf("config.example.json lacks %s", k)
		}
		if inDoc[k] == "" {
			t.Errorf("docs/config.md lacks %s", k)
		}
		if b, _ := json.Marshal(v); !strings.HasPrefix(k, "agents.") && !strings.HasPrefix(k, "accounts.providers.") && inDoc[k] != "`"+string(b)+"`" {
			t.Errorf("docs/config.md says that %s is %s, the example %s", k, inDoc[k], b)
		}
	}
	for name, program := range agents.Programs() {
		if known, _ := tree["agents"].(map[string]any); known[name] == nil && program != "" {
			t.Errorf("config.example.json lacks agents.%s", name)
		}
		if !strings.Contains(string(doc), "`"+name+"`") || program != "" && !strings.Contains(inDoc["agents.<name>.command"], fmt.Sprintf("`%q`", program)) {
			t.Errorf("docs/config.md lacks the agent %s or its command %q", name, program)
		}
	}
	for k := range inDoc {
		if !slices.Contains(keys, k) {
			t.Errorf("docs/config.md has a key %s that does not exist", k)
		}
	}
}

// paths collects the leaves of a JSON tree by the paths of config.Keys.
func paths(path string, tree map[string]any, out map[string]any) {
	for k, v := range tree {
		full := strings.TrimPrefix(path+"."+k, ".")
		if path == "agents" {
			full = "agents.<name>"
		}
		if path == "accounts.providers" {
			full = "accounts.providers.<name>"
		}
		if sub, ok := v.(map[string]any); ok && len(sub) > 0 && full != "agents.<name>.env" && full != "accounts.providers.<name>.groups" {
			paths(full, sub, out)
			continue
		}
		if items, ok := v.([]any); ok && len(items) > 0 {
			if sub, ok := items[0].(map[string]any); ok {
				paths(full+"[]", sub, out)
				continue
			}
		}
		out[full] = v
	}
}

// places are the kinds the program has.
func places() (out []config.Kind) {
	for _, d := range kinds.All() {
		out = append(out, config.Kind{Name: string(d.Kind), Settings: d.Settings})
	}
	return out
}

func FuzzLoad(f *testing.F) {
	f.Add(`{"server":{"listen":"127.0.0.1:0"}}`)
	f.Add(`{"agents":{"x":{"command":"${A}","env":{"B":"c"}}},"projects":{"allowedRoots":["~/x"]}}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(dir, fmt.Sprintf("%x.json", len(text)))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := config.Load(file, env(map[string]string{"HOME": "/h", "A": "a"}), agents.Programs(), places()); err == nil {
			_ = c.Redacted()
		}
	})
}

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/avatars"
	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/accounts/sso"
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/models"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/automations/jobs"
	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/automations/triggers"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/billing/usage"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/firststart"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/reviewqueue"
	"github.com/parawork/parawork/sessions/runs"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/automationstore"
	"github.com/parawork/parawork/store/avatarstore"
	"github.com/parawork/parawork/store/jobstore"
	"github.com/parawork/parawork/store/noticestore"
	"github.com/parawork/parawork/store/oauthstore"
	"github.com/parawork/parawork/store/placestore"
	"github.com/parawork/parawork/store/startstore"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/tendingstore"
	"github.com/parawork/parawork/store/threadstore"
	"github.com/parawork/parawork/store/toolstore"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/testing/testaccounts"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/artifacts/blobs"
	agentbrowser "github.com/parawork/parawork/tools/browser"
	"github.com/parawork/parawork/tools/calllog"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/demo"
	"github.com/parawork/parawork/tools/desktop"
	"github.com/parawork/parawork/tools/edits"
	"github.com/parawork/parawork/tools/lsp"
	"github.com/parawork/parawork/tools/memory"
	"github.com/parawork/parawork/tools/run"
	"github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/tools/skills"
	"github.com/parawork/parawork/tools/skills/repository"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tasks/issues"
	"github.com/parawork/parawork/tools/toolgroups"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/disk"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/overlap"
	"github.com/parawork/parawork/workspaces/reviews"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

const testPassword = "correct horse battery"

// harness is every room in this process, over SQLite, with sandboxes whose guests run here too.
type harness struct {
	t           testing.TB
	db          *store.DB
	dir         string
	bus         *events.Bus
	accounts    *testaccounts.Accounts
	server      *Server
	cfg         Config
	url         string // once it serves
	stop        context.CancelFunc
	ended       chan struct{}
	boundTokens map[string]string // of the matrix, by owner and scopes
	family      *fake.Family      // members' machines as places
	ahead       atomic.Int64      // how far OAuth's clock is ahead
	demo        atomic.Bool       // the place of the public demo can be used
}

// noBrowsers are sandboxes in which no browser is started.
type noBrowsers struct{ *executortest.Managed }

// demoRules say that the fake executor enforces networks where the public demo may use it.
type demoRules struct {
	sandboxes.Rules
	on *atomic.Bool
}

func (r demoRules) Executor(ctx context.Context, teamID, userID string, asked executors.Kind) (sandboxes.Executor, error) {
	e, err := r.Rules.Executor(ctx, teamID, userID, asked)
	e.Network = e.Network || r.on.Load()
	return e, err
}

func (noBrowsers) Place(context.Context, executors.Kind) (executors.Capabilities, bool) {
	return executors.Capabilities{}, false
}

// managed shows workspaces the Manager in the shape they need.
type managed struct{ *executortest.Managed }

func (p managed) Ensure(ctx context.Context, workspaceID string) error {
	_, err := p.Manager.Ensure(ctx, workspaceID)
	return err
}

func (p managed) Live(workspaceID string) bool {
	_, ok := p.Manager.Live(workspaceID)
	return ok
}

// unhosted gives the agent no session that runs.
type unhosted struct{ h *harness }

func (unhosted) Hosted(string) (agent.Host, bool) { return nil, false }
func (u unhosted) Session(ctx context.Context, id string) (sessions.Session, error) {
	return u.h.cfg.Sessions.Get(ctx, id)
}
func (u unhosted) Continuing(context.Context, string, string) ([]sessions.Session, error) {
	return nil, nil
}
func (u unhosted) Amend(context.Context, sessions.Session, []conversation.Item) {}

// silentInbox has nothing to tell.
type silentInbox struct{}

func (silentInbox) Items(context.Context, string) ([]notify.Item, error) { return nil, nil }

// noGates are those of a server whose places do not isolate.
type noGates struct{}

func (noGates) Update(string, executors.Network) {}
func (noGates) Workspaces() []string             { return nil }

func notifying(h *harness) *notify.Service {
	return notify.New(notify.Config{Store: store.NewNotify(h.db), Notices: noticestore.New(h.db), Events: h.bus, Inbox: silentInbox{}, Bus: h.bus, Secrets: h.accounts,
		Client: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
}

// auditing makes accounts with their audit in db.
func auditing(db *store.DB, cfg testaccounts.Config) (*testaccounts.Accounts, *audit.Log) {
	accounts := testaccounts.New(cfg)
	return accounts, audit.New(audit.Config{Store: store.NewAudit(db), Sealer: accounts})
}

// newHarness joins the services. Nothing runs; tune changes the server's configuration.
func newHarness(t testing.TB, tune ...func(*Config)) *harness {
	t.Helper()
	h := &harness{t: t, db: storetest.SQLite(t), dir: t.TempDir(), bus: events.New()}
	world := fake.NewWorld(filepath.Join(h.dir, "guests"), nil)
	t.Cleanup(world.Close)
	var log *audit.Log
	h.accounts, log = auditing(h.db, testaccounts.Config{Store: store.NewAccounts(h.db), Key: make([]byte, 32), Changed: func(u string) { h.server.Recheck(u) }})
	mm := machines.New(machines.Config{Store: store.NewMachines(h.db), Accounts: h.accounts, Sealer: h.accounts, Events: h.bus, Enabled: true})
	rows := store.NewWorkspaces(h.db)
	ws := assembly.New(assembly.Config{Store: rows, Trash: store.NewTrash(h.db), TrashKeep: 30 * 24 * time.Hour, Machines: mm, Events: h.bus, DataDir: h.dir, DefaultExecutor: string(fake.Kind), BranchPrefix: "parawork/"})
	from, moves := ws.Origin, ws.Moves
	kept, people := store.NewExecutors(h.db), placestore.New(h.db)
	prices := price.New(price.Config{Store: store.NewPrices(h.db), Free: []string{"bubblewrap", "local"}, Now: func() int64 { return time.Now().UnixMilli() }})
	ledger := billing.New(billing.Config{Store: store.NewBilling(h.db), Events: h.bus, Budget: func(context.Context) (billing.Budget, error) {
		return billing.Budget{LimitNano: 500 * billing.Nano, Limited: true}, nil
	}})
	quotas := quota.New(quota.Config{Store: store.NewQuota(h.db), Now: ledger.Now, Events: h.bus, Teams: h.accounts.CountTeams, OnServer: []string{"bubblewrap", "docker"}, DefaultPlan: func(ctx context.Context) string {
		return h.cfg.Settings.Values(ctx).DefaultPlan
	}})
	far := fake.NewWorld(filepath.Join(h.dir, "machines"), nil)
	t.Cleanup(far.Close)
	h.family = fake.NewFamily(far)
	places := executortest.NewManager(executortest.ManagerConfig{Ledger: ledger, Families: []executors.Family{h.family}, Executors: []executors.Executor{fake.New(world)}, Store: kept, Policies: kept, People: people.Person, Workspaces: ws.Records, Events: h.bus})
	meters, err := places.UseMeters(meter.Config{Limits: ws.Records, Events: h.bus, Maximum: executors.Limits{MemoryMB: 8192}})
	if err != nil {
		t.Fatal(err)
	}
	files := filesync.New(filesync.Config{Store: store.NewChanges(h.db), Places: places, Workspaces: ws.Repo, Events: h.bus})
	reg, err := agents.New(agents.Config{HomesDir: filepath.Join(h.dir, "homes"), WorktreesDir: filepath.Join(h.dir, "worktrees")})
	if err != nil {
		t.Fatal(err)
	}
	sec := secrets.New(secrets.Config{Store: store.NewSecrets(h.db), Vault: h.accounts, Others: h.accounts.OthersWork, Mask: func(k secrets.Secret, masks []string) { h.cfg.Sessions.Masks.Mask(k, masks) }})
	ss := sessions.New(sessions.Config{Secrets: sec, Store: store.NewSessions(h.db), Places: places, Workspaces: movable{ws.Records, moves}, Accounts: h.accounts, Agents: reg, Events: h.bus, DataDir: h.dir})
	ws.Records.Connect(managed{places}, ss.ForWorkspaces())
	places.Attach(meters.Participant(), executors.Participant{Live: files.Follow})
	rr := runs.New(runs.Config{Store: store.NewRuns(h.db), Records: ws.Records, Workspaces: ws.Lifecycle, Sessions: ss, Accounts: h.accounts, Events: h.bus})
	rv := reviews.New(reviews.Config{Store: store.NewReviews(h.db), Trees: reviews.Files{Repo: ws.Repo, Snapshots: ws.Snapshots}, Workspaces: ws.Records, Sessions: reviewqueue.New(ss), Accounts: h.accounts, Bus: h.bus, Events: h.bus})
	nw, err := network.New(network.Config{Store: store.NewNetwork(h.db), Gates: noGates{}, Events: h.bus, AgentHosts: []string{"api.openai.com", "chatgpt.com", "auth.openai.com"}})
	if err != nil {
		t.Fatal(err)
	}
	ii := images.New(images.Config{Store: store.NewImages(h.db), Repositories: ws.Repo, Builder: fakeBuilder{}, Allowed: true, Events: h.bus})
	links := watch.New(watch.Config{Store: store.NewWatch(h.db), Audit: log, Actor: h.accounts.Actor, Ended: func(id string) { h.server.Recheck(id) },
		Subject: Watched(ss, ws)})
	h.cfg = Config{
		Version:       "test",
		Watch:         links,
		PortLinks:     toolstore.NewPortLinks(h.db),
		Machines:      mm,
		Downloads:     machines.NewDownloads(filepath.Join(h.dir, "downloads")),
		Runs:          rr,
		Starts:        firststart.New(firststart.Config{Store: startstore.New(h.db), Records: ws.Records, Workspaces: ws.Lifecycle, Sessions: ss, Actor: h.accounts.Actor, Bus: h.bus}),
		Reviews:       rv,
		Viewed:        rv,
		Network:       nw,
		Images:        ii,
		Directory:     h.accounts.Directory,
		AgentAccounts: h.accounts.Agents,
		Avatars:       avatars.New(avatarstore.New(h.db)),
		SignIn:        h.accounts.Logins,
		Workspaces:    ws,
		Moves:         moves,
		Origin:        from,
		Places:        places.Manager,
		Choice:        places.Chooser,
		Metering:      places.Metering,
		Executors:     places.Registry,
		Meters:        meters,
		Ledger:        ledger,
		Prices:        prices,
		Usage:         usage.New(store.NewUsage(h.db), ledger.Now),
		Files:         files,
		Sessions:      ss,
		History:       ss.Recordings,
		Events:        h.bus,
		Notify:        notifying(h),
		Mail:          mail.New(mail.Config{Store: store.NewMails(h.db), Sealer: h.accounts}),
		Commands:      command.New(command.Config{Places: places, Store: kept, Secrets: commandSecrets(ws, sec)}),
		Answers:       store.NewIdempotency(h.db),
		Audit:         log,
		Policies:      kept,
		People:        people,
		Kinds:         testKinds,
		Settings:      settings.New(settings.Config{Store: store.NewPlaceSettings(h.db), Sealer: h.accounts, Places: testSettings()}),
		Loopback:      true,
		Drain:         2 * time.Second,
		UI:            http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the web app") }),
	}
	h.cfg.Secrets, h.cfg.Quota = sec, quotas
	h.cfg.Tasks = tasks.NewService(tasks.Config{Store: toolstore.NewTasks(h.db), Projects: ws.Records, Outbox: toolstore.NewIssues(h.db), Secrets: sec, Events: h.bus, Bus: h.bus, Settle: time.Millisecond})
	h.cfg.Issues = issues.New(issues.Config{Store: toolstore.NewIssues(h.db), Tasks: h.cfg.Tasks, Rows: toolstore.NewTasks(h.db), Forges: h.cfg.Forge, Events: h.bus})
	h.cfg.Subagents = subagents.New(subagents.Config{Store: toolstore.NewSubagents(h.db), Sessions: ss, Prompts: ss.Queue, Screens: ss.Recordings, Workspaces: ws.Records, Snapshots: ws.Snapshots,
		Siblings: ws.Lifecycle, Commits: ws.Stage, Merging: ws.Merging, Accounts: h.accounts, Secrets: sec, Bus: h.bus, Events: h.bus, Look: 50 * time.Millisecond})
	h.cfg.ToolCalls = calllog.New(calllog.Config{Store: toolstore.NewCalls(h.db), Events: h.bus})
	if h.cfg.Tools, err = tools.New(tools.Config{Tools: append(h.cfg.Subagents.Tools(), run.New(h.cfg.Commands, time.Now)), Secrets: sec, Recorder: h.cfg.ToolCalls}); err != nil {
		t.Fatal(err)
	}
	h.cfg.Artifacts = artifacts.New(artifacts.Config{Store: toolstore.NewArtifacts(h.db), Blobs: blobs.NewFolder(filepath.Join(h.dir, "artifacts", "contents")), Dir: filepath.Join(h.dir, "artifacts", "incoming"),
		Workspaces: ws.Records, Sessions: ss, Secrets: ws.SecretFiles, Worktrees: files, Actor: h.accounts.Actor, Events: h.bus})
	h.cfg.Checkpoints = checkpoints.New(checkpoints.Config{Store: toolstore.NewCheckpoints(h.db), Snapshots: ws.Snapshots, Trees: ws.Repo, Restorer: ws.Lifecycle, Workspaces: ws.Records,
		Sessions: ss, Actor: h.accounts.Actor, Secrets: sec, Events: h.bus})
	h.cfg.Edits = edits.New(edits.Config{Store: toolstore.NewEdits(h.db), Snapshots: ws.Snapshots, Repository: git.Contents{Repo: ws.Repo}, Undoer: ws.Lifecycle, Workspaces: ws.Records, Sessions: ss,
		Actor: h.accounts.Actor, Events: h.bus})
	h.cfg.ToolGroups = toolgroups.New(toolstore.NewGroups(h.db), h.cfg.Tools.Specs())
	h.cfg.Languages = lsp.New(lsp.Config{Places: places, Files: noLanguageFiles{}, Workspaces: ws.Records, Records: toolstore.NewLanguages(h.db), Settings: toolstore.NewLanguages(h.db)})
	h.cfg.Permissions = permissions.New(permissions.Config{Store: threadstore.NewPermissions(h.db), Specs: h.cfg.Tools.Specs(), Events: h.bus})
	h.cfg.Skills = skills.New(skills.Config{Store: toolstore.NewSkills(h.db), Texts: toolstore.NewSkills(h.db), Workspaces: ws.Records, Repository: noSkills{}, Secrets: sec})
	h.cfg.Memory = memory.New(memory.Config{Store: toolstore.NewMemory(h.db), Workspaces: ws.Records, Secrets: sec})
	h.cfg.Agent = agent.New(agent.Config{Store: threadstore.New(h.db), TurnLimits: threadstore.New(h.db), Sessions: unhosted{h}, Fork: h.cfg.Sessions.StartAfter, Tools: h.cfg.Tools, Rules: h.cfg.Permissions, Owner: "server", Events: h.bus,
		Model: func(context.Context, sessions.Session, agent.Options) (agent.Model, error) {
			return agent.Model{}, errors.New("there is no model")
		},
		Caller:  func(context.Context, sessions.Session) (tools.Caller, error) { return tools.Caller{}, nil },
		Project: func(context.Context, string) (string, error) { return "", nil }})
	h.cfg.Desktops = desktop.New(desktop.Config{Sandboxes: noBrowsers{places}, Workspaces: ws.Records})
	h.cfg.Browsers = agentbrowser.New(agentbrowser.Config{Sandboxes: noBrowsers{places}, Workspaces: ws.Records})
	h.cfg.Code = code.New(code.Config{Store: toolstore.NewCode(h.db), Sandboxes: places, Workspaces: ws.Records, Secrets: commandSecrets(ws, sec), Events: h.bus,
		Keep: func(ctx context.Context, r code.Run, mime string, content []byte) (string, error) {
			a, err := h.cfg.Artifacts.Upload(tenant.In(ctx, r.TeamID), artifacts.Maker{TeamID: r.TeamID, WorkspaceID: r.WorkspaceID, UserID: r.UserID}, artifacts.SaveRequest{Name: "results/" + r.ID, MIME: mime},
				bytes.NewReader(content), int64(len(content)), "")
			return a.ID, err
		}})
	h.cfg.Sandboxes = sandboxes.New(sandboxes.Config{Store: toolstore.NewSandboxes(h.db), Workspaces: ws.ForSandboxes(), Places: places.Manager, Sessions: endedSessions{ss},
		Rules: demoRules{sandboxes.NewRules(places.Chooser, places.Registry, ii, nw), &h.demo}, Actor: h.accounts.Actor})
	h.cfg.Demo = demo.New(demo.Config{Executor: fake.Kind, Key: make([]byte, 32), Teams: store.NewAccounts(h.db), Sandboxes: h.cfg.Sandboxes, Code: h.cfg.Code, Confine: ws.ForSandboxes().Confine,
		Limits: demo.Limits{Life: time.Minute, Idle: time.Minute, AtOnce: 5, PerAddress: 1, StartsPerHour: 10, RunsPerMinute: 10, RunTime: time.Second, OutputBytes: 1000},
		Place: func(context.Context, executors.Kind) (executors.Capabilities, bool) {
			return executors.Capabilities{Available: h.demo.Load(), Isolated: true, Network: true, Limits: true}, true
		}})
	h.cfg.Jobs = jobs.New(jobs.Config{Store: jobstore.New(h.db), Sessions: ss, Terminals: ss.Recordings, Workspaces: jobWorkspaces{ws.Records, ws.Lifecycle}, Sandboxes: h.cfg.Sandboxes, Places: jobPlaces{},
		Artifacts: h.cfg.Artifacts, Hooks: h.cfg.Notify, Actor: h.accounts.Actor, Asks: func(string) bool { return false }, Bus: h.bus, Events: h.bus})
	h.cfg.Automations = triggers.New(triggers.Config{Store: automationstore.New(h.db), Jobs: h.cfg.Jobs, Secrets: h.accounts, Actor: h.accounts.Actor, Events: h.bus})
	h.cfg.Report = reports(h, &h.cfg)
	h.cfg.Forge = forging(h.db, ws, from, sec, h.accounts)
	h.cfg.Tending = tending.New(tending.Config{Store: tendingstore.New(h.db), Forge: h.cfg.Forge, Branch: unpushed{}, Sessions: ss, Prompts: ss.Queue, Workspaces: ws.Records, Actor: h.accounts.Actor,
		Announce: func(context.Context, tending.Tending, string, string) error { return nil }, Bus: h.bus, Events: h.bus})
	h.cfg.Disk = disk.New(disk.Config{Projects: ws.Projects, Records: ws.Records, Reclaim: ws.Reclaim, Events: h.bus})
	h.cfg.Checks = checks.New(checks.Config{Store: store.NewChecks(h.db), Records: ws.Records, Sandboxes: ws.Ingest, Merges: ws.Merging, Commands: h.cfg.Commands, Accounts: h.accounts, Events: h.bus})
	h.cfg.Overlap = overlap.New(overlap.Config{Store: store.NewOverlaps(h.db), Workspaces: overlap.NewTrees(ws.Records, ws.Repo, rows), Events: h.bus})
	h.cfg.OAuth = oauth.New(oauth.Config{Store: oauthstore.New(h.db), Tokens: h.accounts, Now: func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }})
	h.cfg.SSO = sso.New(sso.Config{Store: store.NewSSO(h.db), Directory: h.accounts, SignIn: h.accounts, Audit: log})
	h.cfg.Tokens = tokens.New(tokens.Config{Store: store.NewTokens(h.db), Events: h.bus})
	h.cfg.Gateway = gateway.New(gateway.Config{Store: store.NewGateway(h.db), Meter: h.cfg.Tokens, Client: http.DefaultClient, Key: make([]byte, 32),
		Account: func(context.Context, gateway.Grant) (gateway.Account, error) {
			return gateway.Account{}, rest.ErrNotFound
		}})
	h.cfg.Models = models.New(models.Config{Allowed: h.cfg.Gateway.AllowedModels, Project: func(context.Context, string) (string, error) { return "", nil },
		Account: func(ctx context.Context, actor accounts.Actor, teamID, accountID string) (accounts.AgentAccount, error) {
			a, _, err := h.accounts.Agents.AgentAccountFor(ctx, actor, teamID, agent.Name, accountID)
			return a, err
		},
		Direct: func(ctx context.Context, s sessions.Session, _ string) (models.Access, error) {
			d, err := h.cfg.Gateway.Direct(ctx, gateway.Grant{TeamID: s.TeamID, UserID: s.CreatedBy, AccountID: s.AccountID})
			return models.Access{Client: d.Client, Anthropic: gateway.AnthropicBase, OpenAI: gateway.OpenAIBase}, err
		}})
	h.cfg.Payments = stripe.New(stripe.Config{Store: store.NewStripe(h.db), Team: func(ctx context.Context, teamID string) (stripe.Team, error) {
		t, err := h.accounts.TeamByID(ctx, teamID)
		return stripe.Team{ID: t.ID, Slug: t.Slug, Name: t.Name, Email: "owner@example.com"}, err
	}, Audit: log, Events: h.bus})
	h.cfg.Reports = stripe.NewReporter(stripe.ReporterConfig{Payments: h.cfg.Payments, Store: store.NewUsageReports(h.db), Frozen: ledger.Frozen})
	for _, fn := range tune {
		fn(&h.cfg)
	}
	if h.server, err = New(h.cfg); err != nil {
		t.Fatal(err)
	}
	return h
}

// start runs rooms until what it returns is called, which waits for their end.
func (h *harness) start(runs ...func(context.Context) error) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, run := range runs {
		all.Go(func() {
			if err := run(ctx); err != nil {
				h.t.Errorf("a room failed: %v", err)
			}
		})
	}
	return func() { stop(); all.Wait() }
}

// serve runs the rooms and the server until the test ends, and opens the door.
func (h *harness) serve() {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.url = "http://" + l.Addr().String()
	if err := h.cfg.Places.Recover(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.ended = stop, make(chan struct{})
	// As the real server ends: whoever asks for places before the places.
	accounts := h.start(h.cfg.Machines.Run, h.cfg.Subagents.Run, h.cfg.Runs.Run, h.cfg.Starts.Run, h.cfg.Reviews.Run, h.cfg.Checks.Run, h.cfg.Overlap.Run, h.cfg.Images.Run,
		h.cfg.Workspaces.Run, h.cfg.Commands.Run, h.cfg.Sessions.Run, h.cfg.Files.Run)
	places := h.start(h.cfg.Places.Run)
	go func() {
		defer close(h.ended)
		if err := h.server.Serve(ctx, l); err != nil {
			h.t.Errorf("Serve: %v", err)
		}
		accounts()
		places()
	}()
	h.t.Cleanup(func() { stop(); <-h.ended; http.DefaultClient.CloseIdleConnections() })
	h.server.Open()
}

// cast are users of every kind, with what their paths name.
type cast struct {
	tokens map[string]string // "" = nobody
	ids    map[string]string
	team   accounts.Team
}

// people makes a team with everything a path can name, one member of each role, an outsider with a team of their own, somebody
// without any, and an operator without any.
func (h *harness) people(t testing.TB) cast {
	t.Helper()
	ctx := t.Context()
	user := func(name string) (accounts.Actor, string) {
		// Nobody signs in with a password here, and hashing one for each takes long.
		u := accounts.User{ID: id.New("usr"), Email: name + "@example.com", Name: name, PasswordHash: "!", Operator: name == "operator", CreatedAt: 1}
		if ok, err := store.NewAccounts(h.db).InsertUser(ctx, u); err != nil || !ok {
			t.Fatalf("user %s: %v %v", name, ok, err)
		}
		_, token, err := h.accounts.CreateToken(ctx, u.ID, "test", 0)
		if err != nil {
			t.Fatal(err)
		}
		return accounts.Actor{User: u}, token
	}
	p := cast{tokens: map[string]string{"nobody": ""}}
	owner, token := user("owner")
	p.tokens["owner"] = token
	var err error
	if p.team, err = h.accounts.CreateTeam(ctx, owner, "Harbour", ""); err != nil {
		t.Fatal(err)
	}
	if owner, err = h.accounts.Actor(ctx, owner.User.ID); err != nil {
		t.Fatal(err)
	}
	for _, role := range []accounts.Role{accounts.Admin, accounts.Member, accounts.Viewer} {
		a, token := user(string(role))
		p.tokens[string(role)] = token
		if _, err := h.accounts.PutMember(ctx, p.team.ID, a.User.Email, role); err != nil {
			t.Fatal(err)
		}
	}
	outsider, token := user("outsider")
	p.tokens["outsider"] = token
	if _, err := h.accounts.CreateTeam(ctx, outsider, "Elsewhere", ""); err != nil {
		t.Fatal(err)
	}
	_, p.tokens["homeless"] = user("homeless")
	_, p.tokens["operator"] = user("operator")
	p.ids = h.furnish(t, p.team, owner.User.ID)
	return p
}

// furnish stores a project, a workspace, an ended session and a command of a team.
func (h *harness) furnish(t testing.TB, team accounts.Team, userID string) map[string]string {
	t.Helper()
	ctx := t.Context()
	prj := workspaces.Project{ID: id.New("prj"), TeamID: team.ID, Name: "p", SourceKind: workspaces.SourceSample, State: workspaces.ProjectReady, CreatedBy: userID, CreatedAt: 1}
	ws := workspaces.Workspace{ID: id.New("ws"), TeamID: team.ID, ProjectID: prj.ID, Name: "w", Branch: "b", Base: "main", Executor: string(fake.Kind),
		State: workspaces.Ready, CreatedBy: userID, CreatedAt: 1, UpdatedAt: 1}
	ws.Path = filepath.Join(h.dir, "worktrees", ws.ID, "w")
	ses := sessions.Session{ID: id.New("ses"), TeamID: team.ID, WorkspaceID: ws.ID, Agent: "shell", State: state.Exited, Cols: 80, Rows: 24, CreatedBy: userID, StartedAt: 1, EndedAt: 2}
	cmd := command.Command{ID: id.New("cmd"), TeamID: team.ID, WorkspaceID: ws.ID, ActorID: userID, Argv: []string{"true"}, State: command.Completed, CreatedAt: 1, StartedAt: 1, EndedAt: time.Now().UnixMilli()} // or it is dropped as old
	kept := store.NewWorkspaces(h.db)
	if err := kept.InsertProject(ctx, prj); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.InsertWorkspace(ctx, ws); err != nil {
		t.Fatal(err)
	}
	if err := store.NewSessions(h.db).InsertSession(ctx, ses, "home"); err != nil {
		t.Fatal(err)
	}
	prm := prompt.Prompt{ID: id.New("prm"), TeamID: ws.TeamID, WorkspaceID: ws.ID, SessionID: ses.ID, Text: "p", State: prompt.Sent, CreatedBy: ses.CreatedBy}
	if _, err := store.NewSessions(h.db).AddPrompt(ctx, prm, 10); err != nil {
		t.Fatal(err)
	}
	run := runs.Run{ID: id.New("run"), TeamID: ws.TeamID, ProjectID: ws.ProjectID, Name: "r", Prompt: "p", CreatedBy: ses.CreatedBy}
	if err := store.NewRuns(h.db).InsertRun(ctx, run); err != nil {
		t.Fatal(err)
	}
	sub := subagents.Subagent{ID: id.New("sub"), TeamID: ws.TeamID, ProjectID: ws.ProjectID, FromWorkspaceID: ws.ID, ParentSessionID: ses.ID, Root: ses.ID, Depth: 1, Name: "s", Task: "t", Agent: "command",
		Where: subagents.Same, WorkspaceID: ws.ID, SessionID: id.New("ses"), Status: subagents.Completed, CreatedBy: ses.CreatedBy, CreatedAt: 1}
	if err := toolstore.NewSubagents(h.db).InsertSubagent(ctx, sub, 8, 8); err != nil {
		t.Fatal(err)
	}
	task, err := h.cfg.Tasks.Create(ctx, tasks.Who{TeamID: ws.TeamID, UserID: userID}, tasks.New{ProjectID: ws.ProjectID, Title: "t"})
	if err != nil {
		t.Fatal(err)
	}
	rev := reviews.Review{ID: id.New("rev"), TeamID: ws.TeamID, WorkspaceID: ws.ID, AuthorID: userID, State: reviews.Draft, CreatedAt: 1, UpdatedAt: 1}
	if _, err := store.NewReviews(h.db).OpenDraft(ctx, rev); err != nil {
		t.Fatal(err)
	}
	rcm := reviews.Comment{ID: id.New("rcm"), TeamID: ws.TeamID, WorkspaceID: ws.ID, ReviewID: rev.ID, AuthorID: userID, Path: "a", Side: reviews.NewSide, Body: "b",
		State: reviews.Open, CreatedAt: 1, UpdatedAt: 1}
	if err := store.NewReviews(h.db).AddComment(ctx, rcm, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := store.NewReviews(h.db).EditReview(ctx, rev.ID, func(r *reviews.Review) error {
		r.State, r.Verdict, r.SentAt = reviews.Sent, reviews.Comments, 1 // a draft is its author's alone
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	img := images.Build{ID: id.New("img"), TeamID: ws.TeamID, ProjectID: ws.ProjectID, Source: "Dockerfile", State: images.Building, CreatedBy: ses.CreatedBy}
	if err := store.NewImages(h.db).InsertImageBuild(ctx, img); err != nil {
		t.Fatal(err)
	}
	check := checks.Run{ID: id.New("cru"), TeamID: ws.TeamID, WorkspaceID: ws.ID, ProjectID: ws.ProjectID, BatchID: "b", CheckID: "c", State: checks.RunPassed, CreatedAt: 1, EndedAt: 2}
	if err := store.NewChecks(h.db).InsertCheckRuns(ctx, []checks.Run{check}); err != nil {
		t.Fatal(err)
	}
	if err := store.NewExecutors(h.db).InsertCommand(ctx, cmd); err != nil {
		t.Fatal(err)
	}
	snap := snapshot.Snap{ID: id.New("snp"), TeamID: team.ID, WorkspaceID: ws.ID, Kind: snapshot.SnapManual, At: 1, Commit: strings.Repeat("a", 40), Tree: strings.Repeat("b", 40), Head: strings.Repeat("c", 40), BaseCommit: strings.Repeat("c", 40)}
	if err := store.NewWorkspaces(h.db).InsertSnapshot(ctx, snap); err != nil {
		t.Fatal(err)
	}
	ran := code.Run{ID: id.New("code"), TeamID: team.ID, WorkspaceID: ws.ID, UserID: ws.CreatedBy, Language: code.Python, Kernel: "default", Code: "1", State: code.OK, CreatedAt: 1}
	if err := toolstore.NewCode(h.db).CreateRun(ctx, ran, code.MaxRuns); err != nil {
		t.Fatal(err)
	}
	given := sandboxes.Sandbox{ID: id.New("asb"), TeamID: team.ID, UserID: userID, Purpose: executors.ForExecution, WorkspaceID: ws.ID, IdleMs: 60_000, CreatedAt: 1, UsedAt: 1, EndsAt: 1 << 60}
	if err := toolstore.NewSandboxes(h.db).InsertSandbox(ctx, given, 1000); err != nil {
		t.Fatal(err)
	}
	ckp := checkpoints.Checkpoint{ID: id.New("ckp"), TeamID: team.ID, WorkspaceID: ws.ID, SnapshotID: snap.ID, Reason: checkpoints.Manual, At: 1}
	if err := toolstore.NewCheckpoints(h.db).InsertCheckpoint(ctx, ckp, 500); err != nil {
		t.Fatal(err)
	}
	conflict := filesync.Conflict{ID: id.New("sco"), TeamID: team.ID, WorkspaceID: ws.ID, Path: "a", Kept: "a.server", FoundAt: 1}
	if err := store.NewChanges(h.db).ApplyMirror(ctx, filesync.MirrorDelta{WorkspaceID: ws.ID, TeamID: team.ID,
		State: filesync.MirrorState{State: filesync.Synced}, Conflicts: []filesync.Conflict{conflict}}); err != nil {
		t.Fatal(err)
	}
	link := watch.Link{ID: id.New("wln"), TeamID: team.ID, WorkspaceID: ws.ID, SessionID: ses.ID, CreatedBy: userID, CreatedAt: 1, ExpiresAt: time.Now().Add(time.Hour).UnixMilli()}
	if err := store.NewWatch(h.db).InsertWatchLink(ctx, link, link.ID); err != nil {
		t.Fatal(err)
	}
	artifact := artifacts.Artifact{ID: id.New("art"), TeamID: team.ID, ProjectID: ws.ProjectID, WorkspaceID: ws.ID, CreatedBy: userID, Name: "report.md", CreatedAt: 1}
	if err := toolstore.NewArtifacts(h.db).BeginArtifact(ctx, artifact, func(artifacts.Use) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := toolstore.NewArtifacts(h.db).FinishArtifact(ctx, artifact); err != nil {
		t.Fatal(err)
	}
	shared := artifacts.Link{ID: id.New("aln"), TeamID: team.ID, ArtifactID: artifact.ID, CreatedBy: userID, CreatedAt: 1, ExpiresAt: time.Now().Add(time.Hour).UnixMilli()}
	if err := toolstore.NewArtifacts(h.db).InsertArtifactLink(ctx, shared, shared.ID, 1); err != nil {
		t.Fatal(err)
	}
	skill, err := h.cfg.Skills.Save(ctx, skills.Skill{TeamID: team.ID, ProjectID: prj.ID, Name: id.New("s")[2:], Version: skills.Version{Description: "d", Text: "t", UserID: userID}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	fact := memory.Fact{ID: id.New("mem"), TeamID: team.ID, ProjectID: prj.ID, Text: "fact", UserID: userID, CreatedAt: 1}
	if err := toolstore.NewMemory(h.db).Remember(ctx, fact, 10); err != nil {
		t.Fatal(err)
	}
	hook := notify.Webhook{ID: id.New("whk"), TeamID: team.ID, Name: "w", Format: notify.JSON, Kinds: notify.Kinds, CreatedBy: userID, CreatedAt: 1}
	if err := store.NewNotify(h.db).InsertWebhook(ctx, hook); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(ws.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	inv := accounts.Invite{ID: id.New("inv"), TeamID: team.ID, Role: accounts.Member, CreatedBy: userID, CreatedAt: 1, ExpiresAt: 1 << 60}
	if err := store.NewAccounts(h.db).InsertInvite(ctx, inv, inv.ID, ""); err != nil {
		t.Fatal(err)
	}
	token, _, err := h.cfg.Machines.NewToken(ctx, team.ID, userID, "t", false)
	if err != nil {
		t.Fatal(err)
	}
	machine := machines.Machine{ID: id.New("rnr"), TeamID: team.ID, UserID: userID, Name: "m " + prj.ID, CreatedAt: 1, Hello: wire.Hello{Share: machines.ShareTeam}}
	if err := store.NewMachines(h.db).InsertRunner(ctx, machine); err != nil {
		t.Fatal(err)
	}
	job := jobs.Job{ID: id.New("job"), TeamID: team.ID, CreatedBy: userID, Request: jobs.Request{Prompt: "p", Agent: "command", ProjectID: ws.ProjectID}, WorkspaceID: ws.ID, Status: jobs.Completed, Step: jobs.Done,
		Version: 1, CreatedAt: 1}
	if err := jobstore.New(h.db).InsertJob(ctx, job, 10); err != nil {
		t.Fatal(err)
	}
	thread := agent.Thread{ID: id.New("thr"), TeamID: team.ID, ProjectID: ws.ProjectID, WorkspaceID: ws.ID, SessionID: ses.ID, Conversation: ses.Conversation, CreatedBy: userID, Mode: agent.Build, State: agent.Idle, Version: 1}
	if err := threadstore.New(h.db).CreateThread(ctx, thread); err != nil {
		t.Fatal(err)
	}
	prl, err := threadstore.NewPermissions(h.db).Add(ctx, permissions.Rule{ID: id.New("prl"), TeamID: team.ID, ProjectID: prj.ID, Tool: "web", Effect: permissions.Deny, CreatedBy: userID, CreatedAt: 1}, 10)
	if err != nil {
		t.Fatal(err)
	}
	automation := triggers.Automation{ID: id.New("aut"), TeamID: team.ID, CreatedBy: userID, Name: "n", Trigger: triggers.Trigger{Kind: triggers.Manual}, Attempts: 1, Version: 1, CreatedAt: 1}
	if err := automationstore.New(h.db).InsertAutomation(ctx, automation, 1000); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"automation": automation.ID, "permission rule": prl.ID, "thread": thread.ID, "job": job.ID, "runner": machine.ID, "runner token": token.ID, "team": team.Slug, "project": prj.ID, "workspace": ws.ID, "session": ses.ID, "command": cmd.ID, "prompt": prm.ID, "run": run.ID, "task": task.UID, "memory": fact.ID, "skill": skill.ID, "checkpoint": ckp.ID, "code run": ran.ID, "sandbox": given.ID, "webhook": hook.ID, "image": img.ID, "check run": check.ID, "conflict": conflict.ID, "snapshot": snap.ID, "link": link.ID, "artifact": artifact.ID, "artifact link": shared.ID, "invite": inv.ID, "review": rev.ID, "comment": rcm.ID, "subagent": sub.ID}
}

// answer is what the guard says.
type answer struct {
	status  int
	code    string
	details map[string]any
	body    string // without the request's id
}

// ask puts a request to the guard of one operation. 200 means that it was let in.
func (h *harness) ask(t *testing.T, op, token string, p cast) answer {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/", nil)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	c := h.server.echo.NewContext(req, rec)
	names, values := []string{"team", "id", "agent"}, []string{p.ids["team"], p.ids[kindOf(op)], "codex"}
	c.SetParamNames(names...)
	c.SetParamValues(values...)
	var requestID string
	handle := h.server.begin(func(c echo.Context) error {
		requestID = rest.CallOf(c.Request().Context()).ID
		return h.server.guard(op)(func(c echo.Context) error { return c.NoContent(http.StatusOK) })(c)
	})
	if err := handle(c); err != nil {
		t.Fatal(err)
	}
	a := answer{status: rec.Code, body: strings.ReplaceAll(rec.Body.String(), requestID, "")}
	var problem struct {
		Code    string
		Details map[string]any
	}
	if rec.Code != http.StatusOK {
		if err := json.Unmarshal(rec.Body.Bytes(), &problem); err != nil {
			t.Fatalf("%s answered %d %q", op, rec.Code, rec.Body)
		}
	}
	a.code, a.details = problem.Code, problem.Details
	return a
}

// endedSessions are sessions that have all ended.
type endedSessions struct{ *sessions.Service }

func (endedSessions) Ended(context.Context, string, string) (bool, error) { return true, nil }

// jobWorkspaces makes the workspaces of jobs.
type jobWorkspaces struct {
	*workspaces.Records
	lifecycle *lifecycle.Service
}

func (j jobWorkspaces) Create(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error) {
	return j.lifecycle.Create(ctx, actor, teamID, n)
}

func (j jobWorkspaces) RetryCreate(ctx context.Context, id string) (workspaces.Workspace, error) {
	return j.lifecycle.RetryCreate(ctx, id)
}

// jobPlaces is the local place alone.
type jobPlaces struct{}

func (jobPlaces) Choose(context.Context, string, string, ...executors.Kind) (executors.Kind, error) {
	return fake.Kind, nil
}

func (jobPlaces) Isolates(context.Context, executors.Kind) bool { return true }

func (jobPlaces) Find(context.Context, string, string, string, int) ([]string, error) {
	return nil, nil
}

// noLanguageFiles are files that no language server is asked about.
type noLanguageFiles struct{ lsp.Files }

// kindOf is what the id in an operation's path names.
func kindOf(op string) string {
	switch op {
	case "getRunner", "updateRunner", "revokeRunner", "regenerateRunner", "listRunnerHistory", "listRunnerFolders":
		return "runner"
	case "revokeInvite":
		return "invite"
	case "revokeRunnerToken":
		return "runner token"
	case "getProject", "updateProject", "deleteProject", "listMergeQueue", "listOverlaps", "listBranches", "suggestBranch", "findProjectPaths", "getProjectForge", "listGitWork", "cancelGitWork", "getProjectImage", "getProjectTools", "setProjectTools", "getProjectInstructions", "setProjectInstructions", "getProjectAgentLimits", "setProjectAgentLimits", "getProjectLanguages", "setProjectLanguages", "getTaskSettings", "updateTaskSettings", "syncIssues", "listIssueOutbox", "listMemory", "createMemory", "listPermissionRules", "createPermissionRule", "tryPermissionRules", "listImageBuilds", "buildImage":
		return "project"
	case "getImageBuild", "cancelImageBuild", "getImageBuildLog":
		return "image"
	case "cancelCheckRun", "getCheckOutput":
		return "check run"
	case "getSubagent", "messageSubagent", "interruptSubagent", "mergeSubagent":
		return "subagent"
	case "listSubagents", "spawnSubagent":
		return "session"
	case "deletePermissionRule":
		return "permission rule"
	case "deleteMemory":
		return "memory"
	case "getSkill", "updateSkill", "deleteSkill", "listSkillVersions":
		return "skill"
	case "getRun", "keepRun":
		return "run"
	case "getTask", "updateTask", "claimTask", "closeTask", "addTaskDependency", "removeTaskDependency", "workOnTask", "retryTaskIssue", "attachTaskArtifact", "detachTaskArtifact":
		return "task"
	case "updatePrompt", "deletePrompt":
		return "prompt"
	case "getThread", "getThreadMedia", "followThread", "sendToThread", "interruptThread", "updateThread", "forkThread", "undoThread", "compactThread", "clearThread", "listThreadCommands":
		return "thread"
	case "getAutomation", "updateAutomation", "deleteAutomation", "runAutomation", "renewAutomationSecret", "listAutomationRuns":
		return "automation"
	case "getJob", "followJob", "cancelJob", "deleteJob":
		return "job"
	case "listPrompts", "createPrompt", "interruptSession", "getSessionThread":
		return "session"
	case "updateWebhook", "deleteWebhook", "testWebhook", "listDeliveries", "redeliver":
		return "webhook"
	case "revokeWatchLink":
		return "link"
	case "listProjectArtifacts":
		return "project"
	case "getArtifact", "deleteArtifact", "getArtifactContent", "listArtifactLinks", "createArtifactLink":
		return "artifact"
	case "revokeArtifactLink":
		return "artifact link"
	case "listWatchLinks", "createWatchLink":
		return "session"
	case "cancelReview":
		return "review"
	case "updateComment", "deleteComment":
		return "comment"
	case "getCommand", "cancelCommand":
		return "command"
	case "settleSyncConflict":
		return "conflict"
	case "getCheckpoint", "deleteCheckpoint", "diffCheckpoint", "restoreCheckpoint":
		return "checkpoint"
	case "getApiSandbox", "deleteApiSandbox", "extendApiSandbox", "updateApiSandbox", "readSandboxFile", "listSandboxFiles", "statSandboxFile", "writeSandboxFile", "deleteSandboxFile", "execInSandbox", "runCodeInSandbox",
		"getSandboxPort":
		return "sandbox"
	case "getCodeRun", "interruptCode":
		return "code run"
	case "getSnapshot", "updateSnapshot", "deleteSnapshot", "restoreSnapshot":
		return "snapshot"
	case "getSession", "listModelRequests", "listSessionToolCalls", "stopSession", "resumeSession", "sendInput", "getOutput", "getScreen", "getScrollback", "getJournal", "getTiming", "getMoment", "exportSession",
		"correctState",
		"attachTerminal", "getConversation", "listQuestions", "answerQuestion", "snoozeInboxItem", "finishInboxItem", "reopenInboxItem":
		return "session"
	}
	return "workspace"
}

// allows says, by itself, which roles have an action: the table of accounts is asked elsewhere.
func allows(r rule, role string) bool {
	least := map[accounts.Action]string{accounts.ViewTeam: "viewer", accounts.ViewProject: "viewer", accounts.ViewWorkspace: "viewer", accounts.ViewTerminal: "viewer",
		accounts.CreateWorkspace: "member", accounts.EditWorkspace: "member", accounts.MergeWorkspace: "member", accounts.TypeTerminal: "member", accounts.AnswerQuestion: "member",
		accounts.ShareSession: "member", accounts.ConnectRunner: "member", accounts.ViewCosts: "member",
		accounts.ManageProject: "admin", accounts.ManageTeam: "admin", accounts.AllowHost: "admin", accounts.InviteMember: "admin", accounts.ManageMember: "admin",
		accounts.ManageQuotas: "admin", accounts.ManageSecrets: "admin", accounts.ReadAudit: "admin"}
	rank := map[string]int{"viewer": 1, "member": 2, "admin": 3, "owner": 4}
	return rank[role] >= rank[least[r.action]]
}

// reply is an answer with its body read.
type reply struct {
	*http.Response
	body []byte
}

func (r reply) code() string {
	var p struct{ Code string }
	_ = json.Unmarshal(r.body, &p)
	return p.Code
}

func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
}

// do sends a request to the served harness. header is names and values in turn; a string body is JSON.
func (h *harness) do(method, path, body string, header ...string) reply {
	h.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // redirects are answers too
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{resp, bytes.TrimSpace(raw)}
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// commandSecrets gives commands what the program gives them.
func commandSecrets(ws *assembly.Workspaces, sec *secrets.Service) func(context.Context, command.Command) (command.Secrets, error) {
	return func(ctx context.Context, c command.Command) (command.Secrets, error) {
		w, err := ws.Records.Workspace(ctx, c.WorkspaceID)
		if err != nil {
			return command.Secrets{}, err
		}
		g, err := sec.For(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: c.ActorID, Agent: secrets.Commands, WorkspaceID: w.ID,
			Private: w.Private && w.CreatedBy == c.ActorID})
		return command.Secrets{Env: masks.GivenEnv(g), Masks: g.Masks, Own: g.Personal}, err
	}
}

// movable is workspaces that say whether one is on its way to another place.
type movable struct {
	*workspaces.Records
	moves *move.Service
}

func (m movable) Moving(ctx context.Context, workspaceID string) error {
	return m.moves.Moving(ctx, workspaceID)
}

// noSkills is a repository without skills.
type noSkills struct{}

func (noSkills) Skills(context.Context, string) ([]repository.Skill, error) { return nil, nil }

func (noSkills) Skill(context.Context, string, string) (repository.Skill, error) {
	return repository.Skill{}, fault.New(fault.NotFound, "skill_not_found", "There is none.")
}

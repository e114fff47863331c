package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/olahol/melody"

	"github.com/parawork/parawork/accounts/agentaccounts"
	"github.com/parawork/parawork/accounts/avatars"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/oauth"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/accounts/signin"
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
	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/executors/metering"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/executors/preview"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/notify/mail"
	"github.com/parawork/parawork/server/consent"
	"github.com/parawork/parawork/server/contentorigin"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/people"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/running"
	"github.com/parawork/parawork/server/work"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/firststart"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/report"
	"github.com/parawork/parawork/sessions/runs"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/artifacts"
	agentbrowser "github.com/parawork/parawork/tools/browser"
	"github.com/parawork/parawork/tools/calllog"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/demo"
	"github.com/parawork/parawork/tools/desktop"
	"github.com/parawork/parawork/tools/edits"
	"github.com/parawork/parawork/tools/lsp"
	"github.com/parawork/parawork/tools/memory"
	"github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/tools/skills"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tasks/issues"
	"github.com/parawork/parawork/tools/toolgroups"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/disk"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/overlap"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Config is what a Server is made of.
type Config struct {
	Version string

	PublicURL      string         // the address people use, "" = whatever they ask for
	TrustedProxies []netip.Prefix // whose X-Forwarded-For, X-Forwarded-Proto and X-Request-Id are believed
	Loopback       bool           // listens on this machine only: other host names are refused

	Directory     *directory.Service
	SignIn        *signin.Service
	OAuth         *oauth.Service
	AgentAccounts *agentaccounts.Service
	Avatars       *avatars.Service
	Watch         *watch.Service
	PortLinks     preview.LinkStore
	SSO           *sso.Service
	Workspaces    *assembly.Workspaces
	Moves         *move.Service
	Origin        *origin.Service
	Places        *manager.Manager
	Choice        *choice.Chooser
	Metering      *metering.Metering
	Executors     *executors.Registry
	Meters        *meter.Meters
	Ledger        *billing.Ledger
	Payments      *stripe.Service
	Prices        *price.Book
	Usage         *usage.Service
	Reports       *stripe.Reporter
	Tokens        *tokens.Meter
	Gateway       *gateway.Service
	Quota         *quota.Service
	Commands      *command.Commands
	Tools         *tools.Set
	ToolCalls     *calllog.Service
	Tasks         *tasks.Service
	Issues        *issues.Service
	Artifacts     *artifacts.Service
	Subagents     *subagents.Service
	Checkpoints   *checkpoints.Service
	Code          *code.Service
	Sandboxes     *sandboxes.Service
	Demo          *demo.Service // nil = off
	Agent         *agent.Service
	Models        *models.Service      // of Agent
	Permissions   *permissions.Service // of that agent's calls
	Jobs          *jobs.Service
	Automations   *triggers.Service
	ToolGroups    *toolgroups.Service
	Memory        *memory.Service
	Skills        *skills.Service
	Edits         *edits.Service
	Languages     *lsp.Service
	Files         *filesync.Service
	Sessions      *sessions.Service
	Browsers      *agentbrowser.Service
	Desktops      *desktop.Service
	History       *history.Recordings
	Machines      *machines.Service
	Downloads     *machines.Downloads // programs for machines
	Notify        *notify.Service
	Secrets       *secrets.Service
	Mail          *mail.Service
	Runs          *runs.Service
	Starts        *firststart.Service
	Report        *report.Service
	Reviews       *reviews.Service
	Forge         *forge.Service
	Tending       *tending.Service
	Disk          *disk.Service
	Images        *images.Service
	Checks        *checks.Service
	Overlap       *overlap.Service
	Network       *network.Service
	Events        *events.Bus
	Answers       Answers
	Audit         people.Auditor

	GatewayEnabled bool // agents are pointed at the gateway

	Image    string                // what containers are made from unless a project says otherwise
	Policies places.PolicyStore    // what teams say about their places
	Caches   *caches.Caches        // what teams share; nil = nothing
	Settings *settings.Service     // what operators say about places
	Kinds    executors.Descriptors // of places
	People   places.PeopleStore    // what people may and want of places

	AddRegions func(context.Context) error // makes the executors of regions that have none yet; nil = there are none
	// RemoveRegion forgets a region that operators added, unless it is used; nil = there are none.
	RemoveRegion func(ctx context.Context, by string, region executors.Kind) error

	Viewed work.Viewed  // of changes; nil = nobody has viewed any
	Graces money.Graces // of work that reached a limit; nil = none ever does

	ContentURL    string       // the origin of contents that agents made, "" = none of its own
	PreviewListen string       // where ports are seen below a path while there is no domain; "" = on the origin of ContentURL
	PreviewDomain string       // below which ports of sandboxes are seen; "" = off, or localhost where Loopback
	UI            http.Handler // everything outside /api/

	Rates map[rest.Cost]rest.Rate // of costly operations; what is not in it is unbounded

	Drain time.Duration // how long requests under way may take when the server stops; default 10 s
	Now   func() time.Time
	Log   *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *Config) Validate() error {
	if c.SSO == nil || c.Directory == nil || c.SignIn == nil || c.AgentAccounts == nil || c.Avatars == nil || c.Workspaces == nil || c.Moves == nil || c.Origin == nil || c.Places == nil || c.Meters == nil || c.Ledger == nil || c.Prices == nil || c.Usage == nil || c.Commands == nil || c.Files == nil || c.Sessions == nil || c.Runs == nil || c.Starts == nil || c.Forge == nil || c.Tending == nil || c.Images == nil || c.Notify == nil || c.Machines == nil || c.Downloads == nil || c.Network == nil ||
		c.Events == nil || c.Answers == nil || c.Audit == nil || c.Watch == nil || c.Policies == nil || c.Settings == nil {
		return errors.New("server: every service is required")
	}
	if c.Secrets == nil || c.Mail == nil || c.Payments == nil || c.Quota == nil || c.Reports == nil {
		return errors.New("server: Secrets, Mail, Quota, Payments and Reports are needed")
	}
	if c.Reviews == nil {
		return errors.New("server: Reviews is needed")
	}
	if c.Checks == nil || c.Overlap == nil {
		return errors.New("server: Checks and Overlap are needed")
	}
	if c.Artifacts == nil {
		return errors.New("server: Artifacts is needed")
	}
	if c.Tools == nil || c.ToolCalls == nil || c.Tasks == nil || c.Issues == nil || c.ToolGroups == nil {
		return errors.New("server: Tools, ToolCalls, ToolGroups, Issues and Tasks are needed")
	}
	if c.OAuth == nil {
		return errors.New("server: OAuth is needed")
	}
	if c.Subagents == nil {
		return errors.New("server: Subagents is needed")
	}
	if c.Checkpoints == nil {
		return errors.New("server: Checkpoints is needed")
	}
	if c.Tokens == nil || c.Gateway == nil {
		return errors.New("server: Tokens and Gateway are needed")
	}
	if c.UI == nil {
		c.UI = http.NotFoundHandler()
	}
	if c.Drain <= 0 {
		c.Drain = 10 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Phases of a server's life.
const (
	phaseStarting = iota
	phaseServing
	phaseLooking
	phaseStopping
)

// Server answers HTTP. Order: New, Serve (health says starting), Open once the services have recovered.
type Server struct {
	*rest.Privacy
	*rest.Browsers
	*running.Admission

	cfg         Config
	log         *slog.Logger
	echo        *echo.Echo
	public      *url.URL // of cfg.PublicURL, nil without one
	throttle    *rest.Throttle
	mcpCalls    mcpCalls
	ops         operations
	crossOrigin *http.CrossOriginProtection
	phase       atomic.Int32
	doubt       atomic.Pointer[string] // why operators alone may look; set before the phase
	sockets     *sockets
	preview     *preview.Proxy // nil = off
	// previewBelow: ports are seen below paths of a second origin, that of ContentURL or of previewPort.
	previewBelow bool
	previewPort  atomic.Int32
	content      *contentorigin.Origin // nil = none of its own
	melody       *melody.Melody        // while Serve runs
	counters     http.Handler          // for Prometheus

	life context.Context // of every request; ends when Serve gives up waiting for them
	end  context.CancelCauseFunc
}

// New makes a Server. It starts nothing.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Log, crossOrigin: http.NewCrossOriginProtection(), sockets: newSockets(), throttle: rest.NewThrottle(cfg.Rates, cfg.Now), mcpCalls: mcpCalls{byUser: map[string]int{}}}
	s.life, s.end = context.WithCancelCause(context.Background())
	if cfg.PublicURL != "" {
		u, err := url.Parse(cfg.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fault.New(fault.Invalid, "invalid_config", "server.publicUrl %q must be an address such as https://parawork.example.com.", cfg.PublicURL)
		}
		s.public = u
		if err := s.crossOrigin.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, fmt.Errorf("trusting server.publicUrl: %w", err)
		}
	}
	s.Privacy = rest.NewPrivacy(rest.PrivacyConfig{Directory: cfg.Directory, Workspaces: cfg.Workspaces, Events: cfg.Events, Recheck: func(about string) { s.Recheck(about) }, Now: cfg.Now, Log: cfg.Log})
	s.Browsers = rest.NewBrowsers(s.public, cfg.TrustedProxies, func(r *http.Request) string { return s.echo.IPExtractor(r) })
	s.Admission = running.NewAdmission(running.AdmissionConfig{Directory: cfg.Directory, Workspaces: cfg.Workspaces, Places: cfg.Places, Choice: cfg.Choice, Masks: cfg.Sessions.Masks, Commands: cfg.Commands, Secrets: cfg.Secrets})
	if cfg.ContentURL != "" {
		u, err := url.Parse(cfg.ContentURL)
		if err != nil || u.Host == "" || s.public == nil {
			return nil, fault.New(fault.Invalid, "invalid_config", "preview.contentUrl %q must be an address, and server.publicUrl must be set.", cfg.ContentURL)
		}
		s.content = contentorigin.New(contentorigin.Config{URL: u, Now: cfg.Now, Serve: func(w http.ResponseWriter, r *http.Request, id string) { s.ops.ServeContent(w, r, id) }})
	}
	s.ops = s.operations()
	s.preview = s.newPreview()
	s.counters = s.newPrometheus()
	s.echo = s.routes()
	return s, nil
}

// Open begins to answer calls other than health.
func (s *Server) Open() { s.phase.CompareAndSwap(phaseStarting, phaseServing) }

// LookOnly lets operators, and nobody else, look at what the server holds: nothing is changed. why says for what reason and how to go on.
func (s *Server) LookOnly(why string) {
	s.doubt.Store(&why)
	s.phase.CompareAndSwap(phaseStarting, phaseLooking)
}

// ready reports why the server answers no calls now.
func (s *Server) ready() error {
	switch s.phase.Load() {
	case phaseServing:
		return nil
	case phaseStarting:
		return rest.ErrStarting
	case phaseLooking:
		return fault.New(fault.Unavailable, "database_in_doubt", "The server is read-only, for operators alone: %s", *s.doubt.Load())
	}
	return rest.ErrStopping
}

// mayLook reports whether an operation may be asked for, before it is known by whom, while operators look: signing in, and what changes nothing.
func (s *Server) mayLook(op, method string, r rule) bool {
	return s.phase.Load() == phaseLooking && (signIn[op] || (method == http.MethodGet || method == http.MethodHead) && !r.socket && !r.ownProof && r.access != anyone)
}

// signIn are the operations an operator needs to be known.
var signIn = map[string]bool{"login": true, "loginFactor": true, "loginPasskeyOptions": true, "loginPasskey": true, "logout": true, "getSetup": true}

// Serve answers on l until ctx ends. Then it refuses new calls, closes sockets with 4012, lets requests under way finish within
// Config.Drain, and returns when every goroutine of the server has ended. It is called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.melody = newMelody()
	web := s.webServer(s.front(s.echo))
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() { s.watch(work) })
	all.Go(func() { s.sweep(work) })
	failed := make(chan error, 2)
	all.Go(func() { failed <- web.Serve(l) })
	stopPreviews, err := s.servePreviews(ctx, &all, failed)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
			err = fmt.Errorf("serving HTTP: %w", err)
		}
	} else {
		stopPreviews = func(context.Context) {}
	}
	s.stop(web, stopPreviews)
	stopWork()
	all.Wait()
	if cerr := s.melody.Close(); cerr != nil {
		s.log.Debug("the hub of event sockets was not closed", "error", cerr)
	}
	return err
}

func (s *Server) webServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return s.life },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// stop takes no more calls and waits for those under way.
func (s *Server) stop(web *http.Server, stopPreviews func(context.Context)) {
	s.phase.Store(phaseStopping)
	s.sockets.shut(endRestarting)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Drain)
	defer cancel()
	if err := web.Shutdown(ctx); err != nil {
		s.log.Info("aborting requests in progress", "error", err)
	}
	s.sockets.wait(ctx) // Shutdown knows nothing of them
	if s.preview != nil {
		s.preview.Close()
	}
	s.end(rest.ErrStopping)
	// Whoever is still there sees the end of its context; a moment later the connection goes.
	last, cancelLast := context.WithTimeout(context.Background(), goodbye)
	defer cancelLast()
	stopPreviews(last)
	_ = web.Shutdown(last)
	_ = web.Close()
	s.sockets.wait(last)
}

// sweepEvery is how often kept answers that have grown old are removed, and what OAuth clients no longer use.
const sweepEvery = time.Hour

func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if _, err := s.cfg.Answers.Drop(ctx, s.cfg.Now().Add(-keepAnswers).UnixMilli()); err != nil && ctx.Err() == nil {
			s.log.Warn("old idempotent answers could not be removed", "error", err)
		}
		if err := s.cfg.OAuth.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("old OAuth clients and grants could not be removed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// newEcho configures Echo with our binder, our error handler and our way to find the client's address behind a proxy.
func (s *Server) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Logger.SetOutput(io.Discard) // errors come to fail
	e.Binder = rest.Binder{}
	e.HTTPErrorHandler = s.fail
	e.IPExtractor = echo.ExtractIPDirect()
	if len(s.cfg.TrustedProxies) > 0 {
		opts := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
		for _, p := range s.cfg.TrustedProxies {
			_, n, err := net.ParseCIDR(p.String())
			if err == nil {
				opts = append(opts, echo.TrustIPRange(n))
			}
		}
		e.IPExtractor = echo.ExtractIPFromXFFHeader(opts...)
	}
	// Before routing, so that also what has no route is logged and has its headers.
	e.Pre(s.begin, s.rescue, s.headers, s.webApp)
	return e
}

// webApp hands everything outside /api/ to the web app.
func (s *Server) webApp(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if p := c.Request().URL.Path; p == prometheusPath || p == stripePath || p == mcpPath || consent.Serves(p) {
			c.Request().URL.Path = rest.Base + p
			return next(c)
		}
		if ofAPI(c.Request().URL.Path) {
			return next(c)
		}
		s.cfg.UI.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}

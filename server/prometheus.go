package server

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// prometheusPath is Prometheus' default metrics path. It serves the same as the path below apiBase.
const prometheusPath = "/metrics"

// scraperHeaders are those that a program sends which asks for itself. A proxy adds others, such as X-Forwarded-For, Via or
// Cf-Connecting-Ip, and a browser's page has Sec-Fetch-Site.
var scraperHeaders = map[string]bool{"Accept": true, "Accept-Encoding": true, "User-Agent": true, "X-Prometheus-Scrape-Timeout-Seconds": true}

// scrapeTimeout bounds what the counters are gathered in.
const scrapeTimeout = 10 * time.Second

// fromLoopback reports whether the request's peer is this machine.
func fromLoopback(r *http.Request) bool {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// scrapesLocally reports whether a request for the counters comes from a program of this machine itself: then it needs no token. With a
// proxy before the server everything comes from this machine, and many a proxy says nothing of it and sets the host itself. So the server
// must be for this machine alone: it listens nowhere else, trusts no proxy and has no public address, without which nobody can sign in
// through one. What a proxy shows of itself counts, too: HTTP/1.0, a connection for one request, headers.
func (s *Server) scrapesLocally(r *http.Request) bool {
	if !s.cfg.Loopback || len(s.cfg.TrustedProxies) > 0 || s.public != nil && !rest.LoopbackHost(s.public.Host) || !fromLoopback(r) || !rest.LoopbackHost(r.Host) ||
		!r.ProtoAtLeast(1, 1) || r.Close {
		return false
	}
	for name := range r.Header {
		if !scraperHeaders[name] {
			return false
		}
	}
	return true
}

// newPrometheus is the registry of the server's counters: its own, so that nothing else gets into it.
func (s *Server) newPrometheus() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&placeCollector{s: s}, &gatewayCollector{s: s}, prometheus.NewGoCollector(), // its newer place links database/sql
		prometheus.NewProcessCollector(prometheus.ProcessCollectorOpts{Namespace: "parawork"}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4})
}

func (h operations) GetMetrics(ctx context.Context, _ api.GetMetricsRequestObject) (api.GetMetricsResponseObject, error) {
	return scrape{h.counters, rest.CallOf(ctx).Request}, nil
}

// scrape answers with the counters as they are.
type scrape struct {
	counters http.Handler
	request  *http.Request
}

func (s scrape) VisitGetMetricsResponse(w http.ResponseWriter) error {
	s.counters.ServeHTTP(w, s.request)
	return nil
}

// placeCollector tells Prometheus what is counted of places. Labels name kinds of places and purposes, and nothing else: no team, user or workspace.
type placeCollector struct{ s *Server }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("parawork_"+name, help, labels, nil)
}

var (
	descInfo      = desc("build_info", "The server's version.", "version")
	descActive    = desc("sandboxes_active", "Sandboxes that run now.", "executor", "purpose")
	descCreated   = desc("sandboxes_created_total", "Sandboxes that became ready.", "executor", "purpose")
	descFailed    = desc("sandboxes_failed_total", "Sandboxes that could not be made.", "executor", "purpose")
	descCleaned   = desc("sandboxes_cleaned_total", "Sandboxes that were removed because nobody knew or needed them.", "executor", "purpose")
	descReused    = desc("sandboxes_reused_total", "Times a live sandbox was used instead of a new one.", "executor", "purpose")
	descHealth    = desc("sandbox_health_failures_total", "Health checks of sandboxes that were not answered.", "executor", "purpose")
	descFallbacks = desc("fallbacks_total", "Workspaces that started elsewhere because their place could not serve.", "executor")
	descRun       = desc("sandbox_run_seconds_total", "Seconds sandboxes have run.", "executor")
	descIdle      = desc("sandbox_idle_seconds_total", "Of those, seconds without anything to do.", "executor")
	descHits      = desc("pool_hits_total", "Sandboxes that were made of a warm one.", "executor")
	descMisses    = desc("pool_misses_total", "Sandboxes for which no warm one was ready.", "executor")
	descCreate    = desc("sandbox_create_seconds", "From the asking for a sandbox to its being ready.", "executor")
	descCommand   = desc("command_start_seconds", "From the asking for a command in a live sandbox to its running.", "executor")
	descLag       = desc("sync_lag_seconds", "From the change of a file to its being on this server.", "executor")
	descPool      = desc("pool_sandboxes", "Sandboxes made ahead of time, by state.", "state")
	descSpent     = desc("budget_spent_dollars", "What paid places have cost this month (UTC).")
	descLimit     = desc("budget_limit_dollars", "What they may cost this month; absent without a bound.")
	descRunners   = desc("runners", "Members' own machines, by state.", "state")
	descCost      = desc("cost_month_dollars", "What a kind of place has cost this month (UTC).", "executor")
)

// Describe names what Collect tells.
func (p *placeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{descInfo, descActive, descCreated, descFailed, descCleaned, descReused, descHealth, descFallbacks, descRun, descIdle,
		descHits, descMisses, descCreate, descCommand, descLag, descPool, descSpent, descLimit, descCost, descRunners} {
		ch <- d
	}
}

// Collect tells the figures as they are now.
func (p *placeCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(p.s.life, scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(descInfo, 1, p.s.cfg.Version)
	counts, active := p.s.cfg.Places.Counters().Counts(), p.s.cfg.Metering.Active()
	for _, k := range p.s.cfg.Executors.Kinds() {
		p.place(ch, counts[k], string(k))
		rows, _ := purposes(map[executors.Kind]executors.Counts{k: counts[k]}, map[executors.Kind]map[executors.Purpose]int64{k: active[k]})
		for _, n := range rows {
			gauge(descActive, float64(n.Active), string(k), n.Purpose)
			for d, v := range map[*prometheus.Desc]int64{descCreated: n.Created, descFailed: n.Failed, descCleaned: n.Cleaned, descReused: n.Reused, descHealth: n.HealthFailures} {
				ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), string(k), n.Purpose)
			}
		}
	}
	if pool, err := p.s.cfg.Places.Pool(ctx); err == nil {
		gauge(descPool, float64(pool.Ready), "ready")
		gauge(descPool, float64(pool.Making), "making")
		gauge(descPool, float64(pool.Taken), "taken")
	} else {
		ch <- prometheus.NewInvalidMetric(descPool, err)
	}
	online, offline := 0, 0
	for _, m := range p.s.cfg.Machines.Machines(ctx, "") {
		if m.Online {
			online++
		} else {
			offline++
		}
	}
	gauge(descRunners, float64(online), "online")
	gauge(descRunners, float64(offline), "offline")
	report, err := p.s.cfg.Ledger.Report(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descSpent, err)
		return
	}
	gauge(descSpent, dollars(report.Budget.SpentNano))
	if report.Budget.Limited {
		gauge(descLimit, dollars(report.Budget.LimitNano))
	}
	for _, k := range p.s.cfg.Executors.Kinds() {
		gauge(descCost, dollars(report.Executors[string(k)].CostNano), string(k))
	}
}

func (p *placeCollector) place(ch chan<- prometheus.Metric, c executors.Counts, kind string) {
	for d, v := range map[*prometheus.Desc]float64{descFallbacks: float64(c.Fallbacks), descHits: float64(c.WarmHits), descMisses: float64(c.WarmMisses), descRun: float64(c.RunMs) / 1000, descIdle: float64(c.IdleMs) / 1000} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, kind)
	}
	for d, t := range map[*prometheus.Desc]executors.Timing{descCreate: c.Create, descCommand: c.Command, descLag: c.Lag} {
		below := make(map[float64]uint64, len(executors.TimingBounds))
		sum := uint64(0)
		for i, top := range executors.TimingBounds {
			sum += uint64(t.Buckets[i])
			below[float64(top)/1000] = sum
		}
		ch <- prometheus.MustNewConstHistogram(d, uint64(t.Count), float64(t.SumMs)/1000, below, kind)
	}
}

// dollars is an amount for a gauge, which is no ledger: floats are good enough there.
func dollars(nano int64) float64 { return float64(nano) / 1e9 }

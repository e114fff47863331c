package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/store"
)

const billingUsage = `usage: parawork billing <command> [flags]

  setup     make what payment needs in your account at Stripe: products and prices of the plans that cost something, meters,
            the webhook endpoint, settings of the customer portal. It may be run as often as you like, also while the server
            runs: what is there stays, what differs is changed. Run it again after you changed plans or prices.
              --dry-run              only look, and say what would be done
              --public-url URL       where Stripe reaches this server (default: server.publicUrl)
              --secrets-file FILE    where the signing secret of a new webhook endpoint is written, readable by you alone
                                     (default: billing.stripe.webhookSecretsFile, else stripe-webhook-secrets in the data folder)
              --new-webhook          make another webhook endpoint in place of the one that is there
  status    say how payment goes

All take --config FILE. The secret key is billing.stripe.secretKey of config.json; begin with one of test mode (sk_test_...).
`

// billing makes and looks at what payment needs.
func (p program) billing(ctx context.Context, args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	ctx = instance.ByCommandLine(ctx)
	switch name {
	case "setup":
		return p.billingSetup(ctx, args)
	case "status":
		return p.billingStatus(ctx, args)
	case "help", "--help", "-h":
		fmt.Fprint(p.stdout, billingUsage)
		return nil
	case "":
		fmt.Fprint(p.stderr, billingUsage)
	default:
		fmt.Fprintf(p.stderr, "parawork: there is no command %q.\n\n%s", "billing "+name, billingUsage)
	}
	return errUsage
}

// paymentsOf opens payments as the server has them, but for what it would do by itself.
func paymentsOf(cfg *config.Config, in *instance.Instance) *stripe.Service {
	c := cfg.Billing.Stripe
	return stripe.New(stripe.Config{SecretKey: c.SecretKey, WebhookSecrets: c.WebhookSecrets, APIBase: c.APIBase, PastDueDays: cfg.Billing.PastDueDays, Store: store.NewStripe(in.Db), Audit: in.Audit,
		Team: func(ctx context.Context, id string) (stripe.Team, error) {
			t, err := in.Directory.TeamByID(ctx, id)
			return stripe.Team{ID: t.ID, Slug: t.Slug, Name: t.Name}, err
		}})
}

func (p program) billingSetup(ctx context.Context, args []string) (err error) {
	flags, file := p.flagsOf("billing setup", billingUsage)
	dry, again := flags.Bool("dry-run", false, ""), flags.Bool("new-webhook", false, "")
	public, secrets := flags.String("public-url", "", ""), flags.String("secrets-file", "", "")
	if err := p.parse(flags, args); err != nil {
		return err
	}
	cfg, err := p.config(*file)
	if err != nil {
		return err
	}
	in, done, err := instance.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	rates, err := ratesOf(ctx, cfg, p.kinds, in.Db)
	if err != nil {
		return err
	}
	if *public == "" {
		*public = cfg.Server.PublicURL
	}
	if *secrets == "" {
		*secrets = cfg.Billing.Stripe.WebhookSecretsFile
	}
	if *secrets == "" {
		*secrets = filepath.Join(cfg.DataDir, "stripe-webhook-secrets")
	}
	pay := paymentsOf(cfg, in)
	wrote := false
	steps, failed := stripe.Setup(ctx, stripe.SetupConfig{Payments: pay, Store: store.NewUsageReports(in.Db), Rates: rates, PublicURL: reachable(*public, cfg.Billing.Stripe.APIBase), DryRun: *dry, NewWebhook: *again,
		HasSecret: len(cfg.Billing.Stripe.WebhookSecrets) > 0 || fileThere(*secrets), Secret: func(secret string) error { wrote = true; return keepSecret(*secrets, secret) }})
	p.printSteps(steps, pay, *dry)
	if !*dry {
		changed := 0
		for _, s := range steps {
			if s.Do != stripe.StepKeep && s.Do != stripe.StepSkip {
				changed++
			}
		}
		if err := in.Notify(ctx, audit.Instance, "billing.setup", "payments", "", modeOf(pay), "changes", fmt.Sprint(changed)); err != nil {
			return errors.Join(failed, err)
		}
	}
	if failed != nil {
		return failed
	}
	if wrote {
		fmt.Fprintf(p.stdout, "\nThe signing secret of the webhook endpoint is in %s.\n", *secrets)
		if cfg.Billing.Stripe.WebhookSecretsFile == "" {
			fmt.Fprintf(p.stdout, "Set billing.stripe.webhookSecretsFile in config.json to that path.\n")
		}
		fmt.Fprintln(p.stdout, "Restart the server to accept webhooks.")
	}
	if *dry {
		fmt.Fprintln(p.stdout, "\nNothing was changed. Run it without --dry-run to apply.")
	}
	return nil
}

// modeOf says whether it is real money.
func modeOf(pay *stripe.Service) string {
	if pay.Livemode() {
		return "live mode"
	}
	return "test mode"
}

func (p program) printSteps(steps []stripe.Step, pay *stripe.Service, dry bool) {
	fmt.Fprintf(p.stdout, "Stripe, %s\n\n", modeOf(pay))
	words := map[string]string{stripe.StepKeep: "is there", stripe.StepCreate: "made", stripe.StepUpdate: "changed", stripe.StepReplace: "replaced", stripe.StepSkip: "left out"}
	if dry {
		words = map[string]string{stripe.StepKeep: "is there", stripe.StepCreate: "would be made", stripe.StepUpdate: "would be changed", stripe.StepReplace: "would be replaced", stripe.StepSkip: "would be left out"}
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, s := range steps {
		fmt.Fprintf(w, "%s\t%s\t%s\n", words[s.Do], s.What, s.ID)
		if s.Detail != "" {
			fmt.Fprintf(w, "\t  %s\t\n", s.Detail)
		}
	}
	w.Flush()
}

// ratesOf is what usage costs on bills: what the price book says now of the place that comes with a price, else of the metered place that costs most.
func ratesOf(ctx context.Context, cfg *config.Config, kinds executors.Descriptors, db *store.DB) (stripe.Rates, error) {
	now := time.Now().UnixMilli()
	pc := fromconfig.Prices(cfg, kinds)
	pc.Store, pc.Now = store.NewPrices(db), func() int64 { return now }
	book := price.New(pc)
	if err := book.Load(ctx); err != nil {
		return stripe.Rates{}, err
	}
	var best price.Row
	for _, bundled := range [...]bool{true, false} { // a price that comes with the program before one that operators made
		for _, r := range book.List() {
			row, ok := book.At(r.Executor, now)
			if !ok || !row.Metered || row.VCPUSecondNano+row.GiBSecondNano == 0 ||
				bundled != slices.ContainsFunc(pc.Defaults, func(d price.Row) bool { return d.Executor == r.Executor }) {
				continue
			}
			if best.Executor == "" || row.VCPUSecondNano > best.VCPUSecondNano {
				best = row
			}
		}
		if best.Executor != "" {
			break
		}
	}
	return stripe.Rates{VCPUSecondNano: best.VCPUSecondNano, GiBSecondNano: best.GiBSecondNano}, nil
}

// reachable is where Stripe reaches the server, "" where it cannot: this machine's own names mean another there.
func reachable(public, apiBase string) string {
	u, err := url.Parse(public)
	if err != nil || apiBase != "" {
		return public
	}
	host := u.Hostname()
	if a, err := netip.ParseAddr(host); host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && (a.IsLoopback() || a.IsPrivate()) {
		return ""
	}
	return public
}

func fileThere(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && strings.Contains(string(b), "whsec_")
}

// keepSecret writes a signing secret as the first line of a file nobody else reads. The one before stays beside it: what is on its way
// is signed with it.
func keepSecret(path, secret string) error {
	lines := []string{secret}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if before := strings.Fields(string(old)); len(before) > 0 {
		lines = append(lines, before[0])
	}
	return atomicfile.WriteDurable(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (p program) billingStatus(ctx context.Context, args []string) (err error) {
	flags, file := p.flagsOf("billing status", billingUsage)
	if err := p.parse(flags, args); err != nil {
		return err
	}
	cfg, err := p.config(*file)
	if err != nil {
		return err
	}
	in, done, err := instance.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	pay := paymentsOf(cfg, in)
	ledger := billing.New(billing.Config{Store: store.NewBilling(in.Db)})
	o, err := stripe.NewReporter(stripe.ReporterConfig{Payments: pay, Store: store.NewUsageReports(in.Db), Frozen: ledger.Frozen}).Overview(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	switch {
	case !o.Enabled:
		line("payment", "off: there is no billing.stripe.secretKey")
	case !o.SetUp:
		line("payment", "%s, not set up: run parawork billing setup", modeOf(pay))
	default:
		line("payment", "%s", modeOf(pay))
	}
	webhooks := "taken"
	if !o.AcceptsWebhooks {
		webhooks = "not taken: there is no signing secret"
	}
	line("webhooks", "%s; last one %s; %d to be acted on, %d given up", webhooks, whenOf(o.LastWebhook), o.NewEvents, o.FailedEvents)
	line("outbox", "%d waiting, %d given up", o.PendingOut, o.FailedOut)
	r := o.Reports
	line("usage reports", "%d waiting, %d sent, %d confirmed, %d failed, %d of unknown outcome", r[stripe.ReportPending], r[stripe.ReportSent], r[stripe.ReportConfirmed], r[stripe.ReportFailed], r[stripe.ReportUnknown])
	line("compared", "%s; %d hours differ", whenOf(o.ReconciledAt), len(o.Discrepancies))
	for _, t := range o.Teams {
		status := cmp.Or(t.Status, "no subscription")
		line("team "+o.Names[t.TeamID].Slug, "%s, %s", t.PlanName, status)
		for _, m := range t.Meters {
			theirs := "not compared yet"
			if m.Theirs != nil {
				theirs = fmt.Sprint(*m.Theirs)
			}
			line("  "+m.Meter, "ledger %d, reported %d, Stripe %s, until %s", m.Ledger, m.Reported, theirs, whenOf(m.Until))
		}
	}
	return w.Flush()
}

// whenOf writes a time, "never" for none.
func whenOf(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04 UTC")
}

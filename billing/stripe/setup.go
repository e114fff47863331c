package stripe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	sdk "github.com/stripe/stripe-go/v76"
	"github.com/stripe/stripe-go/v76/billing/meter"
	"github.com/stripe/stripe-go/v76/billingportal/configuration"
	"github.com/stripe/stripe-go/v76/price"
	"github.com/stripe/stripe-go/v76/product"
	"github.com/stripe/stripe-go/v76/webhookendpoint"
)

// What a step of a setup does.
const (
	StepKeep    = "keep"
	StepCreate  = "create"
	StepUpdate  = "update"
	StepReplace = "replace" // what is there cannot be changed: another takes its place
	StepSkip    = "skip"
)

// Step is one thing a setup looked at, and did or would do.
type Step struct {
	Name   string // as in Store.Objects
	Do     string
	What   string // for people
	ID     string // at the service; "" = it is not there
	Detail string // why, or what to do
}

// Object is something of ours at the service, and what it was made with.
type Object struct {
	Name        string
	ID          string
	Fingerprint string
}

// SetupStore is what a setup needs of the storage.
type SetupStore interface {
	ObjectsMade(ctx context.Context, livemode bool) (map[string]Object, error)
	PutObject(ctx context.Context, livemode bool, o Object, at int64) error
}

// Rates are what a vCPU-second and a GiB-second cost on bills, nano-USD.
type Rates struct {
	VCPUSecondNano int64
	GiBSecondNano  int64
}

// SetupConfig says what is to be there.
type SetupConfig struct {
	Payments  *Service
	Store     SetupStore
	Rates     Rates
	PublicURL string // of this server; "" = no webhook endpoint is made
	DryRun    bool   // only look, and say what would be done

	// Secret takes the signing secret of a webhook endpoint that was made: the service tells it this once. It is called before anything
	// else is done with the endpoint.
	Secret func(secret string) error
	// HasSecret reports whether a signing secret is known.
	HasSecret bool
	// NewWebhook asks for another webhook endpoint to replace the existing one, whose secret is unknown.
	NewWebhook bool
}

type setup struct {
	SetupConfig
	s        *Service
	instance string
	made     map[string]Object
	steps    []Step

	products  product.Client
	prices    price.Client
	meters    meter.Client
	endpoints webhookendpoint.Client
	portals   configuration.Client
}

// Setup makes what payment needs in the operator's account at the service: products and prices of the plans, meters, the webhook
// endpoint and the portal's settings. It may be run as often as one likes: what is there stays, what differs is changed or replaced.
// It returns what it did, also with an error.
func Setup(ctx context.Context, cfg SetupConfig) ([]Step, error) {
	if !cfg.Payments.Enabled() {
		return nil, errors.New("there is no secret key: set billing.stripe.secretKey (or secretKeyFile) in config.json")
	}
	instance, err := cfg.Payments.Instance(ctx)
	if err != nil {
		return nil, err
	}
	b, k := cfg.Payments.calls.backend, cfg.Payments.calls.key
	u := &setup{SetupConfig: cfg, s: cfg.Payments, instance: instance, products: product.Client{B: b, Key: k}, prices: price.Client{B: b, Key: k},
		meters: meter.Client{B: b, Key: k}, endpoints: webhookendpoint.Client{B: b, Key: k}, portals: configuration.Client{B: b, Key: k}}
	if u.made, err = cfg.Store.ObjectsMade(ctx, u.s.live); err != nil {
		return nil, fmt.Errorf("reading what was made: %w", err)
	}
	plans, err := u.s.cfg.Store.Plans(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading plans: %w", err)
	}
	err = u.run(ctx, plans)
	if e := errorOf(err); e != nil {
		// The library's error holds what was answered, which may hold what was sent.
		err = fmt.Errorf("%s: %s", u.doing(), wordsOf(err)+", "+cut(e.Msg, 300))
	}
	return u.steps, err
}

// doing is the step an error belongs to.
func (u *setup) doing() string {
	if len(u.steps) == 0 {
		return "asking the payment service"
	}
	return "after " + u.steps[len(u.steps)-1].What
}

func (u *setup) run(ctx context.Context, plans []Plan) error {
	metered := false
	for _, p := range plans {
		metered = metered || sold(p) && p.MeteredUsage
	}
	if metered {
		for _, m := range Meters {
			if err := u.meter(ctx, m); err != nil {
				return err
			}
		}
	}
	any := false
	for _, p := range plans {
		if !sold(p) {
			continue
		}
		any = true
		if err := u.plan(ctx, p); err != nil {
			return err
		}
	}
	if !any {
		u.step(Step{Name: "plans", Do: StepSkip, What: "products and prices", Detail: "no plan costs anything: give one a price under Settings > Plans"})
	}
	if err := u.portal(ctx, plans); err != nil {
		return err
	}
	return u.webhook(ctx)
}

// sold reports whether a plan is one people pay for.
func sold(p Plan) bool { return p.SeatMonthNano > 0 && p.Offered }

func (u *setup) step(s Step) { u.steps = append(u.steps, s) }

// done notes what a step made.
func (u *setup) done(ctx context.Context, s Step, fingerprint string) error {
	u.step(s)
	if u.DryRun {
		return nil
	}
	o := Object{Name: s.Name, ID: s.ID, Fingerprint: fingerprint}
	if u.made[s.Name] == o {
		return nil
	}
	if err := u.Store.PutObject(ctx, u.s.live, o, u.s.now()); err != nil {
		return fmt.Errorf("storing what was made: %w", err)
	}
	u.made[s.Name] = o
	return nil
}

// fingerprint is a digest of what something is made with.
func fingerprint(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a struct of ours that is no JSON
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// mark adds the instance's id, and more in pairs, to the metadata of something that is made. A setup that is cut short finds what it made
// by its metadata, so that the library's own key is enough.
func (u *setup) mark(p *sdk.Params, more ...string) {
	p.AddMetadata(metaInstance, u.instance)
	for i := 0; i < len(more); i += 2 {
		p.AddMetadata(more[i], more[i+1])
	}
}

// meter finds or makes a meter. Instances that share an account share its meters: usage is kept apart by customer.
func (u *setup) meter(ctx context.Context, name string) error {
	s := Step{Name: MeterName(name), What: "meter " + MeterEvent(name)}
	all := u.meters.List(&sdk.BillingMeterListParams{ListParams: listParams(ctx), Status: sdk.String("active")})
	for all.Next() {
		m := all.BillingMeter()
		if m.EventName != MeterEvent(name) {
			continue
		}
		if m.DefaultAggregation == nil || m.DefaultAggregation.Formula != sdk.BillingMeterDefaultAggregationFormulaSum {
			return fmt.Errorf("the meter %s (%s) does not sum: deactivate it in the dashboard and run this again", m.EventName, m.ID)
		}
		s.Do, s.ID = StepKeep, m.ID
		return u.done(ctx, s, "")
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("reading meters: %w", err)
	}
	s.Do = StepCreate
	if !u.DryRun {
		label := map[string]string{Meters[0]: "vCPU-seconds", Meters[1]: "MiB-seconds of memory"}[name]
		m, err := u.meters.New(&sdk.BillingMeterParams{Params: params(ctx), DisplayName: sdk.String("Parawork " + label), EventName: sdk.String(MeterEvent(name)),
			DefaultAggregation: &sdk.BillingMeterDefaultAggregationParams{Formula: sdk.String("sum")},
			CustomerMapping:    &sdk.BillingMeterCustomerMappingParams{Type: sdk.String("by_id"), EventPayloadKey: sdk.String("stripe_customer_id")},
			ValueSettings:      &sdk.BillingMeterValueSettingsParams{EventPayloadKey: sdk.String("value")}})
		if err != nil {
			return fmt.Errorf("making a meter: %w", err)
		}
		s.ID = m.ID
	}
	return u.done(ctx, s, "")
}

// plan finds or makes a plan's product and prices.
func (u *setup) plan(ctx context.Context, p Plan) error {
	productID, err := u.product(ctx, p)
	if err != nil {
		return err
	}
	if p.SeatMonthNano%10_000_000 != 0 {
		return fmt.Errorf("the plan %s does not cost whole cents", p.Name)
	}
	if err := u.price(ctx, p, productID, priceOf{Kind: KindSeat, Cents: seatCents(p)}); err != nil {
		return err
	}
	if !p.MeteredUsage {
		return nil
	}
	if u.Rates == (Rates{}) {
		return errors.New("usage is to be billed, but no place costs anything: give one a price under Settings > Prices")
	}
	for _, m := range Meters {
		cents := centsOf(u.Rates.VCPUSecondNano, 1)
		if m == Meters[1] {
			cents = centsOf(u.Rates.GiBSecondNano, 1024)
		}
		if err := u.price(ctx, p, productID, priceOf{Kind: m, Cents: cents, Meter: u.made[MeterName(m)].ID}); err != nil {
			return err
		}
	}
	return nil
}

// product finds or makes a plan's product.
func (u *setup) product(ctx context.Context, p Plan) (string, error) {
	s := Step{Name: "product:" + p.ID, What: "product Parawork " + p.Name}
	want := fingerprint([]string{p.Name, p.Description})
	have := u.made[s.Name]
	found, err := u.findProduct(ctx, have.ID, p.ID)
	if err != nil {
		return "", err
	}
	if found == nil {
		have = Object{}
	}
	body := &sdk.ProductParams{Params: params(ctx), Name: sdk.String("Parawork " + p.Name)}
	if p.Description != "" {
		body.Description = sdk.String(p.Description)
	}
	switch {
	case found == nil:
		s.Do = StepCreate
		u.mark(&body.Params, metaPlan, p.ID)
		if !u.DryRun {
			if found, err = u.products.New(body); err != nil {
				return "", fmt.Errorf("making a product: %w", err)
			}
		}
	case have.Fingerprint != want && (found.Name != "Parawork "+p.Name || found.Description != p.Description):
		s.Do = StepUpdate
		if !u.DryRun {
			if found, err = u.products.Update(found.ID, body); err != nil {
				return "", fmt.Errorf("changing a product: %w", err)
			}
		}
	default:
		s.Do = StepKeep
	}
	if found != nil {
		s.ID = found.ID
	}
	return s.ID, u.done(ctx, s, want)
}

func (u *setup) findProduct(ctx context.Context, known, planID string) (*sdk.Product, error) {
	if known != "" {
		p, err := u.products.Get(known, &sdk.ProductParams{Params: params(ctx)})
		if err == nil && p.Active && !p.Deleted {
			return p, nil
		}
		if err != nil && !missing(err) {
			return nil, fmt.Errorf("reading a product: %w", err)
		}
	}
	all := u.products.List(&sdk.ProductListParams{ListParams: listParams(ctx), Active: sdk.Bool(true)})
	for all.Next() {
		if p := all.Product(); p.Metadata[metaInstance] == u.instance && p.Metadata[metaPlan] == planID {
			return p, nil
		}
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("reading products: %w", err)
	}
	return nil, nil
}

// priceOf is what a price is made with. A price never changes at the service: another takes its key.
type priceOf struct {
	Kind  string
	Cents string // of one, as the service writes them
	Meter string
}

// seatCents is what a seat of a plan costs a month.
func seatCents(p Plan) string { return fmt.Sprint(p.SeatMonthNano / 10_000_000) }

// pricePrint returns a fingerprint that shows whether a price was made with other parameters.
func pricePrint(productID string, of priceOf) string {
	return fingerprint([]string{productID, of.Cents, of.Meter})
}

// seatPrint is that of the price of a plan's seats.
func seatPrint(productID string, p Plan) string {
	return pricePrint(productID, priceOf{Kind: KindSeat, Cents: seatCents(p)})
}

// lookupKey is by what a price is found again.
func (u *setup) lookupKey(planID, kind string) string {
	return "parawork_" + u.instance + "_" + planID + "_" + kind
}

// metaMade says what a price was made with.
const metaMade = "parawork_made_with"

func (u *setup) price(ctx context.Context, p Plan, productID string, of priceOf) error {
	s := Step{Name: PriceName(p.ID, of.Kind), What: fmt.Sprintf("price of the plan %s: $%s for each %s", p.Name, dollars(of.Cents), map[string]string{KindSeat: "member and month", Meters[0]: "vCPU-second", Meters[1]: "MiB-second"}[of.Kind])}
	want := pricePrint(productID, of)
	key := u.lookupKey(p.ID, of.Kind)
	var found *sdk.Price
	all := u.prices.List(&sdk.PriceListParams{ListParams: listParams(ctx), LookupKeys: []*string{sdk.String(key)}, Active: sdk.Bool(true)})
	for all.Next() {
		found = all.Price()
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("reading prices: %w", err)
	}
	if found != nil && found.Metadata[metaMade] == want {
		s.Do, s.ID = StepKeep, found.ID
		return u.done(ctx, s, want)
	}
	s.Do = StepCreate
	if found != nil {
		s.Do, s.Detail = StepReplace, "subscriptions that exist keep the old one ("+found.ID+")"
	}
	if u.DryRun {
		return u.done(ctx, s, want)
	}
	body := &sdk.PriceParams{Params: params(ctx), Product: sdk.String(productID), Currency: sdk.String("usd"), Nickname: sdk.String("Parawork " + p.Name + ", " + of.Kind), LookupKey: sdk.String(key),
		TransferLookupKey: sdk.Bool(true), Recurring: &sdk.PriceRecurringParams{Interval: sdk.String("month")}}
	body.AddExtra("unit_amount_decimal", of.Cents) // the library has a float64 for it
	if of.Meter != "" {
		body.Recurring.UsageType, body.Recurring.Meter = sdk.String("metered"), sdk.String(of.Meter)
	}
	u.mark(&body.Params, metaPlan, p.ID, metaKind, of.Kind, metaMade, want)
	made, err := u.prices.New(body)
	if err != nil {
		return fmt.Errorf("making a price: %w", err)
	}
	s.ID = made.ID
	if err := u.done(ctx, s, want); err != nil || found == nil {
		return err
	}
	if _, err := u.prices.Update(found.ID, &sdk.PriceParams{Params: params(ctx), Active: sdk.Bool(false)}); err != nil {
		return fmt.Errorf("retiring the price before: %w", err)
	}
	return nil
}

// centsOf writes nano-USD, divided, in cents with at most 12 decimals, the service's limit; the rest is cut off.
func centsOf(nano, by int64) string {
	const places = 12
	whole := nano / 10_000_000 / by
	rest := nano - whole*10_000_000*by // nano x by: less than a cent each
	digits := ""
	unit := 10_000_000 * by
	for range places {
		rest *= 10
		digits += string(rune('0' + rest/unit))
		rest %= unit
	}
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return fmt.Sprint(whole)
	}
	return fmt.Sprintf("%d.%s", whole, digits)
}

// dollars writes cents as dollars.
func dollars(cents string) string {
	whole, frac, _ := strings.Cut(cents, ".")
	whole = strings.Repeat("0", max(0, 3-len(whole))) + whole
	out := whole[:len(whole)-2] + "." + whole[len(whole)-2:] + frac
	return out
}

// webhookPath is where the service sends its events.
const webhookPath = "/api/v1/webhooks/stripe"

// webhook finds or makes the webhook endpoint.
func (u *setup) webhook(ctx context.Context) error {
	const name = "webhook"
	s := Step{Name: name, What: "webhook endpoint"}
	at, err := url.Parse(u.PublicURL)
	if u.PublicURL == "" || err != nil || u.s.live && at.Scheme != "https" {
		s.Do, s.Detail = StepSkip, "set server.publicUrl in config.json to the https address of this server, and run this again; until then forward events with the Stripe CLI"
		u.step(s)
		return nil
	}
	at = at.JoinPath(webhookPath)
	s.What = "webhook endpoint " + at.String()
	events := make([]*string, 0, len(Types))
	for _, t := range Types {
		events = append(events, sdk.String(t))
	}
	want := fingerprint([]any{at.String(), Types})
	var found *sdk.WebhookEndpoint
	all := u.endpoints.List(&sdk.WebhookEndpointListParams{ListParams: listParams(ctx)})
	for all.Next() {
		if e := all.WebhookEndpoint(); e.ID == u.made[name].ID || found == nil && e.Metadata[metaInstance] == u.instance && e.URL == at.String() {
			found = e
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("reading webhook endpoints: %w", err)
	}
	if found != nil && !u.NewWebhook {
		s.Do, s.ID = StepKeep, found.ID
		if !u.HasSecret {
			s.Detail = "its signing secret is not in config.json and can be read in the dashboard only; or run this with --new-webhook"
		}
		if found.URL != at.String() || found.Status != "enabled" || fingerprint([]any{found.URL, found.EnabledEvents}) != want {
			s.Do = StepUpdate
			if !u.DryRun {
				if _, err := u.endpoints.Update(found.ID, &sdk.WebhookEndpointParams{Params: params(ctx), URL: sdk.String(at.String()), EnabledEvents: events, Disabled: sdk.Bool(false)}); err != nil {
					return fmt.Errorf("changing a webhook endpoint: %w", err)
				}
			}
		}
		return u.done(ctx, s, want)
	}
	s.Do = StepCreate
	if found != nil {
		s.Do = StepReplace
	}
	if u.DryRun {
		return u.done(ctx, s, want)
	}
	body := &sdk.WebhookEndpointParams{Params: params(ctx), URL: sdk.String(at.String()), EnabledEvents: events, APIVersion: sdk.String(sdk.APIVersion), Description: sdk.String("Parawork")}
	u.mark(&body.Params)
	made, err := u.endpoints.New(body)
	if err != nil {
		return fmt.Errorf("making a webhook endpoint: %w", err)
	}
	if err := u.Secret(made.Secret); err != nil {
		// Nobody would ever know the secret.
		_, gone := u.endpoints.Del(made.ID, &sdk.WebhookEndpointParams{Params: params(ctx)})
		return errors.Join(fmt.Errorf("keeping the signing secret: %w", err), gone)
	}
	s.ID = made.ID
	if err := u.done(ctx, s, want); err != nil || found == nil {
		return err
	}
	if _, err := u.endpoints.Del(found.ID, &sdk.WebhookEndpointParams{Params: params(ctx)}); err != nil && !missing(err) {
		return fmt.Errorf("taking the webhook endpoint before away: %w", err)
	}
	return nil
}

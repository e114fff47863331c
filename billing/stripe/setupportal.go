package stripe

import (
	"context"
	"fmt"

	sdk "github.com/stripe/stripe-go/v76"
)

// portal finds or makes the settings of the portal: people see invoices, change how they pay, and end their subscription with its period.
// Seats are not changed there: they follow the team's members. Plans are, where there is more than one and none bills usage: the service
// does not change subscriptions of several prices there.
func (u *setup) portal(ctx context.Context, plans []Plan) error {
	type choice struct{ Product, Price string }
	var choices []choice
	for _, p := range plans {
		if !sold(p) {
			continue
		}
		if p.MeteredUsage {
			choices = nil
			break
		}
		choices = append(choices, choice{u.made["product:"+p.ID].ID, u.made[PriceName(p.ID, KindSeat)].ID})
	}
	if len(choices) < 2 {
		choices = nil
	}
	s := Step{Name: PortalName, What: "settings of the portal"}
	home := ""
	if u.PublicURL != "" {
		home = u.PublicURL
	}
	want := fingerprint([]any{1, choices, home})
	have := u.made[s.Name]
	var found *sdk.BillingPortalConfiguration
	all := u.portals.List(&sdk.BillingPortalConfigurationListParams{ListParams: listParams(ctx), Active: sdk.Bool(true)})
	for all.Next() {
		if c := all.BillingPortalConfiguration(); c.ID == have.ID || found == nil && c.Metadata[metaInstance] == u.instance {
			found = c
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("reading settings of the portal: %w", err)
	}
	if found != nil && found.Metadata[metaMade] == want {
		s.Do, s.ID = StepKeep, found.ID
		return u.done(ctx, s, want)
	}
	body := &sdk.BillingPortalConfigurationParams{Params: params(ctx),
		BusinessProfile: &sdk.BillingPortalConfigurationBusinessProfileParams{Headline: sdk.String("Parawork")},
		Features: &sdk.BillingPortalConfigurationFeaturesParams{
			CustomerUpdate:      &sdk.BillingPortalConfigurationFeaturesCustomerUpdateParams{Enabled: sdk.Bool(true), AllowedUpdates: sdk.StringSlice([]string{"email", "address", "tax_id"})},
			InvoiceHistory:      &sdk.BillingPortalConfigurationFeaturesInvoiceHistoryParams{Enabled: sdk.Bool(true)},
			PaymentMethodUpdate: &sdk.BillingPortalConfigurationFeaturesPaymentMethodUpdateParams{Enabled: sdk.Bool(true)},
			SubscriptionCancel:  &sdk.BillingPortalConfigurationFeaturesSubscriptionCancelParams{Enabled: sdk.Bool(true), Mode: sdk.String("at_period_end")},
		}}
	if len(choices) > 0 {
		update := &sdk.BillingPortalConfigurationFeaturesSubscriptionUpdateParams{Enabled: sdk.Bool(true), DefaultAllowedUpdates: sdk.StringSlice([]string{"price"}), ProrationBehavior: sdk.String("create_prorations")}
		for _, c := range choices {
			update.Products = append(update.Products, &sdk.BillingPortalConfigurationFeaturesSubscriptionUpdateProductParams{Product: sdk.String(c.Product), Prices: sdk.StringSlice([]string{c.Price})})
		}
		body.Features.SubscriptionUpdate = update
	} else if found != nil { // it may have been on; the library leaves empty lists out
		body.AddExtra("features[subscription_update][enabled]", "false")
		body.AddExtra("features[subscription_update][default_allowed_updates]", "")
		body.AddExtra("features[subscription_update][products]", "")
	}
	if home != "" {
		body.DefaultReturnURL = sdk.String(home)
	}
	u.mark(&body.Params, metaMade, want)
	s.Do = StepCreate
	if found != nil {
		s.Do, s.ID = StepUpdate, found.ID
	}
	if u.DryRun {
		return u.done(ctx, s, want)
	}
	var err error
	if found == nil {
		found, err = u.portals.New(body)
	} else {
		found, err = u.portals.Update(found.ID, body)
	}
	if err != nil {
		return fmt.Errorf("storing settings of the portal: %w", err)
	}
	s.ID = found.ID
	return u.done(ctx, s, want)
}

package teststripe

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (s *Stripe) checkoutRoutes() {
	const paging = " limit# starting_after ending_before"
	s.route("POST /v1/checkout/sessions", "mode! success_url! cancel_url customer customer_email client_reference_id line_items.*.price line_items.*.quantity# line_items.*.adjustable_quantity.** metadata.** subscription_data.description subscription_data.metadata.** subscription_data.trial_period_days# subscription_data.trial_end# subscription_data.trial_settings.** "+
		"payment_method_collection payment_method_types.* allow_promotion_codes? automatic_tax.** billing_address_collection tax_id_collection.** customer_update.** locale expires_at# consent_collection.** custom_text.** submit_type ui_mode return_url", s.newCheckout)
	s.getter("checkout/sessions", "checkout.session")
	s.route("GET /v1/checkout/sessions", "customer subscription payment_intent status"+paging, func(c *call) (obj, *fail) {
		return s.list(c, "checkout.session", func(o obj) bool {
			return (!c.has("customer") || o["customer"] == c.str("customer")) && (!c.has("subscription") || o["subscription"] == c.str("subscription"))
		})
	})
	s.route("GET /v1/checkout/sessions/{id}/line_items", paging, func(c *call) (obj, *fail) {
		if _, bad := s.get("checkout.session", c.id()); bad != nil {
			return nil, bad
		}
		return s.table("#lines").by[c.id()], nil
	})
	s.route("POST /v1/checkout/sessions/{id}/expire", "", func(c *call) (obj, *fail) {
		o, bad := s.get("checkout.session", c.id())
		if bad == nil && o["status"] != "open" {
			bad = wrong("", "Only Checkout Sessions with a status in [\"open\"] can be expired.")
		}
		if bad == nil {
			o["status"], o["url"] = "expired", nil
			s.notify("checkout.session.expired", o)
		}
		return o, bad
	})

	const settings = "business_profile.** features.** default_return_url login_page.** metadata.** "
	s.route("POST /v1/billing_portal/configurations", settings+"features.**!", func(c *call) (obj, *fail) {
		o := obj{"active": true, "is_default": false, "application": nil, "business_profile": c.params["business_profile"], "default_return_url": nil, "updated": s.now(), "login_page": obj{"enabled": false, "url": nil}}
		if u := sub(sub(c.params, "features"), "subscription_update"); u != nil && (u["products"] == nil || u["default_allowed_updates"] == nil) {
			return nil, problem(http.StatusBadRequest, "parameter_missing", "features[subscription_update][products]", "Missing required param: features[subscription_update][products].")
		}
		o["features"] = truths(c.params["features"])
		if bad := fill(o, c.params, "default_return_url"); bad != nil {
			return nil, bad
		}
		return s.make("billing_portal.configuration", "bpc", o), nil
	})
	s.route("POST /v1/billing_portal/configurations/{id}", settings+"active?", func(c *call) (obj, *fail) {
		o, bad := s.get("billing_portal.configuration", c.id())
		if bad != nil {
			return nil, bad
		}
		if f := sub(c.params, "features"); f != nil {
			o["features"] = truths(f)
		}
		if b := sub(c.params, "business_profile"); b != nil {
			o["business_profile"] = b
		}
		o["updated"] = s.now()
		return o, fill(o, c.params, "default_return_url", "active")
	})
	s.getter("billing_portal/configurations", "billing_portal.configuration")
	s.route("GET /v1/billing_portal/configurations", "active? is_default?"+paging, func(c *call) (obj, *fail) {
		return s.list(c, "billing_portal.configuration", func(o obj) bool { return is(c, "active", o) && is(c, "is_default", o) })
	})
	s.route("POST /v1/billing_portal/sessions", "customer! configuration return_url flow_data.** locale", func(c *call) (obj, *fail) {
		if _, bad := s.customer(c.str("customer")); bad != nil {
			return nil, bad
		}
		config := any(nil)
		switch id := c.str("configuration"); {
		case id != "":
			if _, bad := s.get("billing_portal.configuration", id); bad != nil {
				bad.status, bad.param = http.StatusBadRequest, "configuration"
				return nil, bad
			}
			config = id
		case !s.opts.DefaultPortal:
			return nil, wrong("", "No configuration provided and your test mode default configuration has not been created. Provide a configuration or create your default by saving your customer portal settings in test mode at https://dashboard.stripe.com/test/settings/billing/portal.")
		}
		o := s.make("billing_portal.session", "bps", obj{"customer": c.str("customer"), "configuration": config, "return_url": nil, "flow": nil, "locale": nil, "on_behalf_of": nil})
		o["url"] = s.base + "/portal/" + o["id"].(string)
		return o, fill(o, c.params, "return_url")
	})

	s.page("GET /pay/{id}", s.checkoutPage)
	s.page("POST /pay/{id}", s.checkoutChoice)
	s.page("GET /portal/{id}", s.portalPage)
	s.page("POST /portal/{id}", s.portalChoice)
	s.page("GET /invoice/{id}", func(w http.ResponseWriter, r *http.Request) {
		o := s.table("invoice").by[r.PathValue("id")]
		if o == nil {
			http.NotFound(w, r)
			return
		}
		show(w, invoicePage, o)
	})
}

// truths reads "true" and "false" below a tree, and "" as a list of nothing.
func truths(v any) any {
	switch t := v.(type) {
	case string:
		if t == "true" || t == "false" {
			return t == "true"
		}
		if t == "" {
			return []any{}
		}
	case obj:
		list := make([]any, 0, len(t))
		for n := range len(t) {
			e, ok := t[strconv.Itoa(n)]
			if !ok {
				break
			}
			list = append(list, truths(e))
		}
		if len(t) > 0 && len(list) == len(t) {
			return list
		}
		out := obj{}
		for k, e := range t {
			out[k] = truths(e)
		}
		return out
	}
	return v
}

func (s *Stripe) newCheckout(c *call) (obj, *fail) {
	if c.str("mode") != "subscription" {
		return nil, wrong("mode", "This Stripe knows checkouts in subscription mode only")
	}
	for _, name := range []string{"success_url", "cancel_url"} {
		if u, err := url.Parse(strings.ReplaceAll(c.str(name), "{CHECKOUT_SESSION_ID}", "x")); c.has(name) && (err != nil || u.Host == "") {
			return nil, problem(http.StatusBadRequest, "url_invalid", name, "Invalid URL: An explicit scheme (such as https) must be provided.")
		}
	}
	if c.has("customer") && c.has("customer_email") {
		return nil, wrong("customer", "You may only specify one of these parameters: customer, customer_email.")
	}
	if c.has("customer") {
		if _, bad := s.customer(c.str("customer")); bad != nil {
			return nil, bad
		}
	}
	if len(c.str("client_reference_id")) > 200 {
		return nil, wrong("client_reference_id", "Invalid string: at most 200 characters")
	}
	lines := items(c.params, "line_items")
	if len(lines) == 0 {
		return nil, problem(http.StatusBadRequest, "parameter_missing", "line_items", "Missing required param: line_items.")
	}
	total, interval := int64(0), ""
	var data []obj
	for _, line := range lines {
		item, bad := s.newItem(line)
		if bad != nil {
			return nil, bad
		}
		price := item["price"].(obj)
		if every := price["recurring"].(obj)["interval"].(string); interval != "" && every != interval {
			return nil, wrong("line_items", "Checkout does not support multiple prices with different billing intervals")
		} else {
			interval = every
		}
		q, licensed := item["quantity"].(int64)
		if licensed && text(line, "quantity") == "" {
			return nil, problem(http.StatusBadRequest, "parameter_missing", "line_items[0][quantity]", "Quantity is required. Add `quantity` to `line_items[0]`")
		}
		if licensed {
			total += priceOf(price, q)
		}
		data = append(data, obj{"id": "li_" + random(8), "object": "item", "price": price, "quantity": item["quantity"], "currency": "usd", "amount_total": s.lineOf(item)})
	}
	expires := c.num("expires_at", s.now()+day)
	if expires < s.now()+30*60 || expires > s.now()+day+60 {
		return nil, wrong("expires_at", "The expires_at timestamp must be at least 30 minutes and less than 24 hours from Checkout Session creation.")
	}
	o := obj{"mode": "subscription", "status": "open", "payment_status": "unpaid", "success_url": c.str("success_url"), "cancel_url": nil, "customer": nil, "customer_email": nil, "client_reference_id": nil, "subscription": nil, "invoice": nil,
		"expires_at": expires, "amount_total": total, "amount_subtotal": total, "currency": "usd", "customer_details": nil, "payment_method_collection": cmp.Or(c.str("payment_method_collection"), "always")}
	if bad := fill(o, c.params, "cancel_url", "customer", "customer_email", "client_reference_id"); bad != nil {
		return nil, bad
	}
	o = s.make("checkout.session", "cs_"+map[bool]string{true: "live", false: "test"}[s.live], o)
	id := o["id"].(string)
	o["url"] = s.base + "/pay/" + id
	o["#lines"], o["#data"] = lines, sub(c.params, "subscription_data")
	s.table("#lines").by[id] = obj{"object": "list", "has_more": false, "url": "/v1/checkout/sessions/" + id + "/line_items", "data": data}
	return o, nil
}

// page serves a page for people, under the lock.
func (s *Stripe) page(pattern string, h http.HandlerFunc) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle()
		h(w, r)
	})
}

func (s *Stripe) checkoutPage(w http.ResponseWriter, r *http.Request) {
	o := s.table("checkout.session").by[r.PathValue("id")]
	if o == nil || o["status"] != "open" {
		w.WriteHeader(http.StatusNotFound)
		show(w, gonePage, nil)
		return
	}
	days := whole(orNone(o["#data"]), "trial_period_days", 0)
	show(w, payPage, obj{"Lines": s.table("#lines").by[o["id"].(string)]["data"], "Total": cents(o["amount_total"].(int64)), "Trial": days, "Cancel": o["cancel_url"], "Said": r.URL.Query().Get("said")})
}

func (s *Stripe) checkoutChoice(w http.ResponseWriter, r *http.Request) {
	o := s.table("checkout.session").by[r.PathValue("id")]
	if o == nil || o["status"] != "open" {
		w.WriteHeader(http.StatusNotFound)
		show(w, gonePage, nil)
		return
	}
	id := o["id"].(string)
	if r.PostForm.Get("do") != "pay" {
		http.Redirect(w, r, "/pay/"+id+"?said=Your+card+was+declined.", http.StatusSeeOther)
		return
	}
	if bad := s.complete(o); bad != nil {
		http.Error(w, bad.message, http.StatusInternalServerError)
		return
	}
	http.Redirect(w, r, strings.ReplaceAll(o["success_url"].(string), "{CHECKOUT_SESSION_ID}", id), http.StatusSeeOther)
}

// Pay pays a checkout, as somebody in a browser does, and returns where they are sent.
func (s *Stripe) Pay(checkout string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	o := s.table("checkout.session").by[checkout]
	if o == nil || o["status"] != "open" {
		return "", fmt.Errorf("there is no open checkout %q", checkout)
	}
	if bad := s.complete(o); bad != nil {
		return "", fmt.Errorf("%s", bad.message)
	}
	return strings.ReplaceAll(o["success_url"].(string), "{CHECKOUT_SESSION_ID}", checkout), nil
}

// complete makes the customer and the subscription of a checkout that is paid.
func (s *Stripe) complete(o obj) *fail {
	customer, _ := o["customer"].(string)
	if customer == "" {
		c := s.make("customer", "cus", obj{"email": o["customer_email"], "name": nil, "phone": nil, "description": nil, "balance": int64(0), "currency": nil, "delinquent": false, "metadata": obj{}})
		customer = c["id"].(string)
		s.notify("customer.created", c)
	}
	s.cards[customer] = Good
	data := orNone(o["#data"])
	made, bad := s.subscribe(customer, o["#lines"].([]obj), whole(data, "trial_period_days", 0), sub(data, "metadata"), sub(data, "trial_settings"))
	if bad != nil {
		return bad
	}
	o["status"], o["payment_status"], o["customer"], o["subscription"], o["invoice"], o["url"] = "complete", "paid", customer, made["id"], made["latest_invoice"], nil
	if whole(data, "trial_period_days", 0) > 0 {
		o["payment_status"] = "no_payment_required"
	}
	s.notify("checkout.session.completed", o)
	return nil
}

func (s *Stripe) portalPage(w http.ResponseWriter, r *http.Request) {
	o := s.table("billing_portal.session").by[r.PathValue("id")]
	if o == nil || o["created"].(int64)+3600 < s.now() {
		w.WriteHeader(http.StatusNotFound)
		show(w, gonePage, nil)
		return
	}
	customer := o["customer"].(string)
	var subs []obj
	for _, sub := range s.of("subscription", customer) {
		if sub["status"] != "canceled" && sub["status"] != "incomplete_expired" {
			var seats any
			for _, item := range sub["items"].(obj)["data"].([]obj) {
				if q, licensed := item["quantity"].(int64); licensed && s.portalMay(o, "subscription_update") {
					seats = q
				}
			}
			subs = append(subs, obj{"ID": sub["id"], "Status": sub["status"], "Ends": sub["cancel_at_period_end"], "Seats": seats, "MayCancel": s.portalMay(o, "subscription_cancel")})
		}
	}
	invoices := s.of("invoice", customer)
	slices.Reverse(invoices)
	show(w, portalHTML, obj{"Subs": subs, "Invoices": invoices, "Return": o["return_url"], "Card": cmp.Or(s.cards[customer], "none")})
}

// portalMay says whether a portal's settings let people do something.
func (s *Stripe) portalMay(session obj, feature string) bool {
	config := s.table("billing_portal.configuration").by[fmt.Sprint(session["configuration"])]
	if config == nil {
		return true
	}
	features, _ := config["features"].(obj)
	f, _ := features[feature].(obj)
	return f["enabled"] == true
}

func (s *Stripe) portalChoice(w http.ResponseWriter, r *http.Request) {
	o := s.table("billing_portal.session").by[r.PathValue("id")]
	if o == nil {
		http.NotFound(w, r)
		return
	}
	subscription := s.table("subscription").by[r.PostForm.Get("subscription")]
	if subscription != nil && subscription["customer"] != o["customer"] {
		subscription = nil
	}
	customer := o["customer"].(string)
	switch do := r.PostForm.Get("do"); {
	case do == "card":
		s.cards[customer] = Good
		for _, inv := range s.of("invoice", customer) {
			if inv["status"] == "open" {
				s.pay(inv, s.now())
			}
		}
	case subscription == nil:
		http.NotFound(w, r)
		return
	case do == "cancel" || do == "keep":
		s.cancelLater(subscription, do == "cancel")
		s.notify("customer.subscription.updated", subscription)
	case do == "seats" && s.portalMay(o, "subscription_update"):
		for _, item := range subscription["items"].(obj)["data"].([]obj) {
			if _, licensed := item["quantity"].(int64); licensed {
				s.changeItem(subscription, item, obj{"quantity": r.PostForm.Get("seats")}, "create_prorations")
			}
		}
		s.notify("customer.subscription.updated", subscription)
	}
	http.Redirect(w, r, "/portal/"+o["id"].(string), http.StatusSeeOther)
}

func orNone(v any) obj {
	o, _ := v.(obj)
	return o
}

func cents(n int64) string { return fmt.Sprintf("$%d.%02d", n/100, n%100) }

func show(w http.ResponseWriter, t *template.Template, v any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	t.Execute(w, v)
}

func pageOf(title, body string) *template.Template {
	return template.Must(template.New(title).Funcs(template.FuncMap{"cents": cents}).Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>` + title + `</title><h1>` + title + `</h1>` + body))
}

var (
	payPage = pageOf("Checkout", `{{with .Said}}<p role="alert">{{.}}</p>{{end}}<ul>{{range .Lines}}<li>{{.price.nickname}} {{with .quantity}}x {{.}}{{else}}by usage{{end}}</li>{{end}}</ul>
{{if .Trial}}<p>{{.Trial}} days free, then {{.Total}}</p>{{else}}<p>{{.Total}}</p>{{end}}
<form method="post"><button name="do" value="pay">Pay</button> <button name="do" value="decline">Pay with a card that is declined</button></form>{{with .Cancel}}<a href="{{.}}">Cancel</a>{{end}}`)
	portalHTML = pageOf("Billing portal", `{{range .Subs}}<section><h2>{{.ID}}</h2><p>{{.Status}}{{if .Ends}}, ends with the period{{end}}</p><form method="post"><input type="hidden" name="subscription" value="{{.ID}}">
{{if .MayCancel}}{{if .Ends}}<button name="do" value="keep">Keep plan</button>{{else}}<button name="do" value="cancel">Cancel plan</button>{{end}}{{end}}
{{if .Seats}}<label>Seats <input name="seats" type="number" min="1" value="{{.Seats}}"></label> <button name="do" value="seats">Change seats</button>{{end}}</form></section>{{else}}<p>No plan</p>{{end}}
<form method="post"><p>Card: {{.Card}}</p><button name="do" value="card">Use another card</button></form>
<ul>{{range .Invoices}}<li>{{.number}} {{.status}} {{cents .total}}</li>{{end}}</ul>{{with .Return}}<a href="{{.}}">Return</a>{{end}}`)
	invoicePage = pageOf("Invoice", `<p>{{.number}} {{.status}} {{cents .total}}</p>`)
	gonePage    = pageOf("Gone", `<p>This page has expired, or was used.</p>`)
)

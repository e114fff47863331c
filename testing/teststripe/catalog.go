package teststripe

import (
	"cmp"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// catalog is what an account is set up with: customers, products, prices, webhook endpoints, settings of the portal.
func (s *Stripe) catalog() {
	const paging = " limit# starting_after ending_before created.gte# created.gt# created.lte# created.lt#"
	const customer = "name email phone description metadata.** address.** shipping.** preferred_locales.* tax_exempt balance# source invoice_settings.** "
	s.route("GET /v1/account", "", func(*call) (obj, *fail) {
		return obj{"id": "acct_fake", "object": "account", "country": "US", "default_currency": "usd", "charges_enabled": true}, nil
	})
	s.route("GET /v1/balance", "", func(*call) (obj, *fail) {
		return obj{"object": "balance", "livemode": s.live, "available": []any{}, "pending": []any{}}, nil
	})
	s.route("POST /v1/customers", customer+"payment_method test_clock tax.**", func(c *call) (obj, *fail) {
		o := s.make("customer", "cus", obj{"name": nil, "email": nil, "phone": nil, "description": nil, "balance": int64(0), "currency": nil, "delinquent": false})
		if bad := fill(o, c.params, "name", "email", "phone", "description"); bad != nil {
			return nil, bad
		}
		if text(c.params, "payment_method") != "" {
			s.cards[o["id"].(string)] = Good
		}
		s.notify("customer.created", o)
		return o, nil
	})
	s.route("POST /v1/customers/{id}", customer+"default_source", func(c *call) (obj, *fail) {
		o, bad := s.customer(c.id())
		if bad == nil {
			bad = fill(o, c.params, "name", "email", "phone", "description")
		}
		if bad == nil {
			s.notify("customer.updated", o)
		}
		return o, bad
	})
	s.route("GET /v1/customers/{id}", "", func(c *call) (obj, *fail) {
		o, bad := s.get("customer", c.id())
		if bad == nil && o["deleted"] == true {
			return obj{"id": o["id"], "object": "customer", "deleted": true}, nil
		}
		return o, bad
	})
	s.route("DELETE /v1/customers/{id}", "", func(c *call) (obj, *fail) {
		o, bad := s.customer(c.id())
		if bad != nil {
			return nil, bad
		}
		for _, sub := range s.of("subscription", c.id()) {
			s.cancel(sub, s.now())
		}
		o["deleted"] = true
		s.notify("customer.deleted", o)
		return obj{"id": o["id"], "object": "customer", "deleted": true}, nil
	})
	s.route("GET /v1/customers", "email"+paging, func(c *call) (obj, *fail) {
		return s.list(c, "customer", func(o obj) bool {
			return o["deleted"] != true && (!c.has("email") || o["email"] == c.str("email"))
		})
	})

	const product = "active? description metadata.** tax_code unit_label statement_descriptor url images.* default_price features.** marketing_features.** "
	s.route("POST /v1/products", product+"name! id type default_price_data.**", func(c *call) (obj, *fail) {
		o := obj{"active": true, "description": nil, "unit_label": nil, "default_price": nil, "tax_code": nil, "type": "service"}
		id := c.str("id")
		if id != "" && s.table("product").by[id] != nil {
			return nil, problem(http.StatusBadRequest, "resource_already_exists", "id", "Product already exists.")
		}
		o = s.make("product", "prod", o)
		if id != "" {
			t := s.table("product")
			delete(t.by, o["id"].(string))
			o["id"], t.by[id], t.order[len(t.order)-1] = id, o, id
		}
		return o, fill(o, c.params, "name", "description", "unit_label", "tax_code", "active")
	})
	s.route("POST /v1/products/{id}", product+"name", func(c *call) (obj, *fail) {
		o, bad := s.get("product", c.id())
		if bad == nil {
			bad = fill(o, c.params, "name", "description", "unit_label", "tax_code", "active", "default_price")
		}
		return o, bad
	})
	s.getter("products", "product")
	s.route("GET /v1/products", "active? ids.* url"+paging, func(c *call) (obj, *fail) {
		ids := texts(c.params, "ids")
		return s.list(c, "product", func(o obj) bool {
			return is(c, "active", o) && (len(ids) == 0 || slices.Contains(ids, o["id"].(string)))
		})
	})

	s.route("POST /v1/prices", "currency! product product_data.** unit_amount# unit_amount_decimal recurring.interval recurring.interval_count# recurring.usage_type recurring.meter recurring.aggregate_usage recurring.trial_period_days# "+
		"billing_scheme tiers_mode tiers.*.up_to tiers.*.unit_amount# tiers.*.unit_amount_decimal tiers.*.flat_amount# tiers.*.flat_amount_decimal transform_quantity.divide_by# transform_quantity.round nickname lookup_key transfer_lookup_key? tax_behavior active? metadata.**", s.newPrice)
	s.route("POST /v1/prices/{id}", "active? nickname lookup_key transfer_lookup_key? tax_behavior metadata.**", func(c *call) (obj, *fail) {
		o, bad := s.get("price", c.id())
		if bad == nil && c.str("lookup_key") != "" {
			bad = s.takeLookupKey(c, o)
		}
		if bad == nil {
			bad = fill(o, c.params, "active", "nickname", "tax_behavior")
		}
		return o, bad
	})
	s.getter("prices", "price")
	s.route("GET /v1/prices", "active? currency product type lookup_keys.* recurring.interval recurring.usage_type recurring.meter"+paging, func(c *call) (obj, *fail) {
		keys := texts(c.params, "lookup_keys")
		if len(keys) > 10 {
			return nil, wrong("lookup_keys", "You can look up at most 10 keys")
		}
		return s.list(c, "price", func(o obj) bool {
			r, _ := o["recurring"].(obj)
			want := sub(c.params, "recurring")
			key, _ := o["lookup_key"].(string)
			return is(c, "active", o) && (!c.has("product") || o["product"] == c.str("product")) && (!c.has("type") || o["type"] == c.str("type")) &&
				(len(keys) == 0 || slices.Contains(keys, key)) && (text(want, "meter") == "" || r["meter"] == text(want, "meter")) &&
				(text(want, "usage_type") == "" || r["usage_type"] == text(want, "usage_type"))
		})
	})

	const endpoint = "enabled_events.* description metadata.** url "
	s.route("POST /v1/webhook_endpoints", endpoint+"enabled_events.*! url! api_version connect?", func(c *call) (obj, *fail) {
		o := obj{"status": "enabled", "description": nil, "api_version": nil, "application": nil}
		if bad := s.fillEndpoint(o, c); bad != nil {
			return nil, bad
		}
		if v := c.str("api_version"); v != "" {
			if v != Version {
				return nil, wrong("api_version", "Invalid API version: "+v)
			}
			o["api_version"] = v
		}
		o = s.make("webhook_endpoint", "we", o)
		shown := obj{}
		for k, v := range o {
			shown[k] = v
		}
		secret := "whsec_" + random(16)
		s.hooks.secrets(o["id"].(string), secret)
		shown["secret"] = secret // shown only this once
		return shown, nil
	})
	s.route("POST /v1/webhook_endpoints/{id}", endpoint+"disabled?", func(c *call) (obj, *fail) {
		o, bad := s.get("webhook_endpoint", c.id())
		if bad == nil {
			bad = s.fillEndpoint(o, c)
		}
		if bad == nil && c.has("disabled") {
			o["status"] = map[string]string{"true": "disabled", "false": "enabled"}[c.str("disabled")]
		}
		return o, bad
	})
	s.getter("webhook_endpoints", "webhook_endpoint")
	s.route("DELETE /v1/webhook_endpoints/{id}", "", func(c *call) (obj, *fail) {
		t := s.table("webhook_endpoint")
		if t.by[c.id()] == nil {
			return nil, missing("webhook_endpoint", c.id())
		}
		delete(t.by, c.id())
		t.order = slices.DeleteFunc(t.order, func(id string) bool { return id == c.id() })
		return obj{"id": c.id(), "object": "webhook_endpoint", "deleted": true}, nil
	})
	s.route("GET /v1/webhook_endpoints", paging, func(c *call) (obj, *fail) { return s.list(c, "webhook_endpoint", nil) })
}

// getter serves GET of one object.
func (s *Stripe) getter(path, kind string) {
	s.route("GET /v1/"+path+"/{id}", "", func(c *call) (obj, *fail) { return s.get(kind, c.id()) })
}

// customer is one that was not deleted.
func (s *Stripe) customer(id string) (obj, *fail) {
	o := s.table("customer").by[id]
	if o == nil || o["deleted"] == true {
		return nil, problem(http.StatusBadRequest, "resource_missing", "customer", "No such customer: '"+id+"'")
	}
	return o, nil
}

// of are the objects of a kind that are of a customer, oldest first.
func (s *Stripe) of(kind, customer string) (out []obj) {
	t := s.table(kind)
	for _, id := range t.order {
		if o := t.by[id]; o["customer"] == customer {
			out = append(out, o)
		}
	}
	return out
}

// is says whether an object is active as a list asks.
func is(c *call, name string, o obj) bool {
	return !c.has(name) || o[name] == (c.str(name) == "true")
}

// fill takes what was given into an object: names of strings, and "active". "" takes a value away.
func fill(o, params obj, names ...string) *fail {
	for _, name := range names {
		v, given := params[name].(string)
		switch {
		case !given:
		case name == "active":
			o[name] = v == "true"
		case v == "":
			o[name] = nil
		default:
			o[name] = v
		}
	}
	return metadata(o, sub(params, "metadata"))
}

func (s *Stripe) fillEndpoint(o obj, c *call) *fail {
	if at := c.str("url"); at != "" {
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return problem(http.StatusBadRequest, "url_invalid", "url", "Invalid URL: An explicit scheme (such as https) must be provided.")
		}
		if s.live && u.Scheme != "https" {
			return problem(http.StatusBadRequest, "url_invalid", "url", "Invalid URL: URL must be HTTPS in live mode.")
		}
		o["url"] = at
	}
	if want := texts(c.params, "enabled_events"); len(want) > 0 {
		for _, e := range want {
			if e != "*" && !knownEvent(e) {
				return wrong("enabled_events", "Invalid enabled_events: must be one of the event types of "+Version+", not "+e)
			}
		}
		o["enabled_events"] = want
	}
	return fill(o, c.params, "description")
}

func (s *Stripe) newPrice(c *call) (obj, *fail) {
	p := c.params
	o := obj{"active": true, "nickname": nil, "lookup_key": nil, "currency": strings.ToLower(c.str("currency")), "type": "one_time", "recurring": nil, "billing_scheme": "per_unit",
		"unit_amount": nil, "unit_amount_decimal": nil, "tiers_mode": nil, "transform_quantity": nil, "tax_behavior": "unspecified"}
	if len(o["currency"].(string)) != 3 {
		return nil, wrong("currency", "Invalid currency: "+c.str("currency"))
	}
	if _, bad := s.get("product", c.str("product")); bad != nil {
		bad.status, bad.param = http.StatusBadRequest, "product"
		return nil, bad
	}
	o["product"] = c.str("product")
	if r := sub(p, "recurring"); r != nil {
		usage := cmp.Or(text(r, "usage_type"), "licensed")
		if !slices.Contains([]string{"day", "week", "month", "year"}, text(r, "interval")) {
			return nil, wrong("recurring[interval]", "Invalid recurring[interval]: must be one of day, month, week, or year")
		}
		rec := obj{"interval": text(r, "interval"), "interval_count": whole(r, "interval_count", 1), "usage_type": usage, "aggregate_usage": nil, "meter": nil, "trial_period_days": nil}
		if m := text(r, "meter"); m != "" {
			meter := s.table("billing.meter").by[m]
			switch {
			case meter == nil:
				return nil, problem(http.StatusBadRequest, "resource_missing", "recurring[meter]", "No such meter: '"+m+"'")
			case meter["status"] != "active":
				return nil, wrong("recurring[meter]", "The meter is not active")
			case usage != "metered":
				return nil, wrong("recurring[meter]", "A meter can only be set when usage_type is metered")
			}
			rec["meter"] = m
		} else if usage == "metered" && text(r, "aggregate_usage") == "" {
			rec["aggregate_usage"] = "sum"
		}
		o["type"], o["recurring"] = "recurring", rec
	}
	tiers := items(p, "tiers")
	switch {
	case c.str("billing_scheme") == "tiered":
		if len(tiers) == 0 || text(p, "tiers_mode") == "" {
			return nil, wrong("tiers", "Tiered prices need tiers and tiers_mode")
		}
		if text(tiers[len(tiers)-1], "up_to") != "inf" {
			return nil, wrong("tiers", "The last tier's up_to must be inf")
		}
		o["billing_scheme"], o["tiers_mode"], o["tiers"] = "tiered", text(p, "tiers_mode"), typedTiers(tiers)
	case len(tiers) > 0:
		return nil, wrong("tiers", "Tiers need billing_scheme=tiered")
	default:
		amount, decimal := c.str("unit_amount"), c.str("unit_amount_decimal")
		if (amount == "") == (decimal == "") {
			return nil, problem(http.StatusBadRequest, "parameter_missing", "unit_amount", "Exactly one of unit_amount and unit_amount_decimal is needed")
		}
		decimal = cmp.Or(decimal, amount)
		r, ok := new(big.Rat).SetString(decimal)
		if _, frac, _ := strings.Cut(decimal, "."); !ok || r.Sign() < 0 || len(frac) > 12 || strings.ContainsAny(decimal, "eE/") {
			return nil, wrong("unit_amount_decimal", "Invalid decimal: "+decimal+"; must be at least 0 and have at most 12 decimal places")
		}
		o["unit_amount_decimal"] = decimal
		if r.IsInt() {
			o["unit_amount"] = r.Num().Int64()
		}
	}
	if bad := s.takeLookupKey(c, o); bad != nil {
		return nil, bad
	}
	if bad := fill(o, p, "nickname", "tax_behavior", "active"); bad != nil {
		return nil, bad
	}
	return s.make("price", "price", o), nil
}

// takeLookupKey gives a price its key, which only one has: it is taken from another only when that was asked for.
func (s *Stripe) takeLookupKey(c *call, o obj) *fail {
	key := c.str("lookup_key")
	if key == "" {
		return nil
	}
	if len(key) > 200 {
		return wrong("lookup_key", "Lookup keys have at most 200 characters")
	}
	for _, other := range s.table("price").by {
		if other["lookup_key"] == key && other["id"] != o["id"] {
			if c.str("transfer_lookup_key") != "true" {
				return wrong("lookup_key", "A price (`"+other["id"].(string)+"`) already uses that lookup key.")
			}
			other["lookup_key"] = nil
		}
	}
	o["lookup_key"] = key
	return nil
}

// typedTiers are tiers as they are answered.
func typedTiers(given []obj) []obj {
	var out []obj
	for _, t := range given {
		o := obj{"up_to": nil, "unit_amount": nil, "unit_amount_decimal": nil, "flat_amount": nil, "flat_amount_decimal": nil}
		if n := whole(t, "up_to", -1); n >= 0 {
			o["up_to"] = n
		}
		for _, name := range []string{"unit_amount", "flat_amount"} {
			decimal := cmp.Or(text(t, name+"_decimal"), text(t, name))
			if r, ok := new(big.Rat).SetString(decimal); ok {
				o[name+"_decimal"] = decimal
				if r.IsInt() {
					o[name] = r.Num().Int64()
				}
			}
		}
		out = append(out, o)
	}
	return out
}

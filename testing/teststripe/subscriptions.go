package teststripe

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// Cards customers pay with.
const (
	Good     = "good"
	Declined = "declined"
	NoCard   = ""
)

// Card changes what a customer pays with.
func (s *Stripe) Card(customer, card string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards[customer] = card
}

const day = 24 * 3600

func (s *Stripe) subscriptionRoutes() {
	const paging = " limit# starting_after ending_before created.gte# created.gt# created.lte# created.lt#"
	const both = "metadata.** items.*.price items.*.quantity# items.*.metadata.** cancel_at# cancel_at_period_end? trial_end# proration_behavior payment_behavior default_payment_method collection_method days_until_due# description automatic_tax.** payment_settings.** trial_settings.** billing_thresholds.** coupon promotion_code off_session? "
	s.route("POST /v1/subscriptions", both+"customer! trial_period_days# trial_from_plan? billing_cycle_anchor# currency backdate_start_date#", func(c *call) (obj, *fail) {
		days := whole(c.params, "trial_period_days", 0)
		if end := whole(c.params, "trial_end", 0); end > s.now() {
			days = (end - s.now() + day - 1) / day
		}
		if _, bad := s.customer(c.str("customer")); bad != nil {
			return nil, bad
		}
		if s.cards[c.str("customer")] == NoCard && days == 0 && c.str("payment_behavior") != "default_incomplete" && c.str("collection_method") != "send_invoice" {
			return nil, wrong("", "This customer has no attached payment source or default payment method. Please consider adding a default payment method.")
		}
		return s.subscribe(c.str("customer"), items(c.params, "items"), days, sub(c.params, "metadata"), sub(c.params, "trial_settings"))
	})
	s.route("POST /v1/subscriptions/{id}", both+"items.*.id items.*.deleted? items.*.clear_usage? proration_date# billing_cycle_anchor pause_collection.** cancellation_details.**", s.changeSubscription)
	s.getter("subscriptions", "subscription")
	s.route("DELETE /v1/subscriptions/{id}", "invoice_now? prorate? cancellation_details.**", func(c *call) (obj, *fail) {
		o, bad := s.alive(c.id())
		if bad == nil {
			s.cancel(o, s.now())
		}
		return o, bad
	})
	s.route("POST /v1/subscriptions/{id}/resume", "billing_cycle_anchor proration_behavior proration_date#", func(c *call) (obj, *fail) {
		o, bad := s.alive(c.id())
		if bad != nil {
			return nil, bad
		}
		if o["status"] != "paused" {
			return nil, wrong("", "Only paused subscriptions can be resumed")
		}
		s.begin(o, s.now())
		s.bill(o, "subscription_update", s.now(), s.now())
		s.notify("customer.subscription.resumed", o)
		return o, nil
	})
	s.route("GET /v1/subscriptions", "customer status price collection_method"+paging, func(c *call) (obj, *fail) {
		return s.list(c, "subscription", func(o obj) bool {
			status := o["status"].(string)
			want := c.str("status")
			return (!c.has("customer") || o["customer"] == c.str("customer")) && (want == "all" || want == status || want == "ended" && (status == "canceled" || status == "incomplete_expired") ||
				want == "" && status != "canceled")
		})
	})
	s.route("GET /v1/subscription_items", "subscription!"+paging, func(c *call) (obj, *fail) {
		o, bad := s.get("subscription", c.str("subscription"))
		if bad != nil {
			return nil, bad
		}
		return obj{"object": "list", "url": c.r.URL.Path, "has_more": false, "data": o["items"].(obj)["data"]}, nil
	})
	s.route("GET /v1/subscription_items/{id}", "", func(c *call) (obj, *fail) {
		_, item := s.itemOf(c.id())
		if item == nil {
			return nil, missing("subscription_item", c.id())
		}
		return item, nil
	})
	s.route("POST /v1/subscription_items/{id}", "quantity# price metadata.** proration_behavior proration_date# payment_behavior off_session?", func(c *call) (obj, *fail) {
		o, item := s.itemOf(c.id())
		if item == nil {
			return nil, missing("subscription_item", c.id())
		}
		if bad := s.changeItem(o, item, c.params, c.str("proration_behavior")); bad != nil {
			return nil, bad
		}
		s.notify("customer.subscription.updated", o)
		return item, metadata(item, sub(c.params, "metadata"))
	})
}

// alive is a subscription that has not ended.
func (s *Stripe) alive(id string) (obj, *fail) {
	o, bad := s.get("subscription", id)
	if bad == nil && (o["status"] == "canceled" || o["status"] == "incomplete_expired") {
		return nil, problem(http.StatusNotFound, "resource_missing", "id", "No such subscription: '"+id+"'")
	}
	return o, bad
}

func (s *Stripe) itemOf(id string) (obj, obj) {
	for _, o := range s.table("subscription").by {
		for _, item := range o["items"].(obj)["data"].([]obj) {
			if item["id"] == id {
				return o, item
			}
		}
	}
	return nil, nil
}

// subscribe makes a subscription and bills its first period.
func (s *Stripe) subscribe(customer string, lines []obj, trialDays int64, meta, trial obj) (obj, *fail) {
	if len(lines) == 0 {
		return nil, problem(http.StatusBadRequest, "parameter_missing", "items", "Missing required param: items.")
	}
	o := obj{"customer": customer, "status": "incomplete", "currency": "usd", "cancel_at": nil, "cancel_at_period_end": false, "canceled_at": nil, "ended_at": nil, "trial_start": nil, "trial_end": nil, "latest_invoice": nil,
		"default_payment_method": nil, "collection_method": "charge_automatically", "pause_collection": nil, "pending_update": nil, "start_date": s.now(), "schedule": nil, "days_until_due": nil, "description": nil,
		"trial_settings": obj{"end_behavior": obj{"missing_payment_method": cmp.Or(text(sub(trial, "end_behavior"), "missing_payment_method"), "create_invoice")}}}
	var data []obj
	for _, line := range lines {
		item, bad := s.newItem(line)
		if bad != nil {
			return nil, bad
		}
		data = append(data, item)
	}
	if bad := metadata(o, meta); bad != nil {
		return nil, bad
	}
	o["items"] = obj{"object": "list", "has_more": false, "data": data, "total_count": int64(len(data))}
	s.make("subscription", "sub", o)
	for _, item := range data {
		item["subscription"] = o["id"]
	}
	now := s.now()
	s.begin(o, now)
	if trialDays > 0 {
		o["status"], o["trial_start"], o["trial_end"], o["current_period_end"], o["billing_cycle_anchor"] = "trialing", now, now+trialDays*day, now+trialDays*day, now+trialDays*day
	}
	s.notify("customer.subscription.created", o)
	s.bill(o, "subscription_create", now, now)
	return o, nil
}

func (s *Stripe) newItem(line obj) (obj, *fail) {
	price := s.table("price").by[text(line, "price")]
	if price == nil {
		return nil, problem(http.StatusBadRequest, "resource_missing", "items[0][price]", "No such price: '"+text(line, "price")+"'")
	}
	rec, ok := price["recurring"].(obj)
	if !ok || price["active"] != true {
		return nil, wrong("items[0][price]", "The price must be active and recurring")
	}
	s.serial++
	item := obj{"id": "si_" + random(8), "object": "subscription_item", "created": s.now(), "price": price, "quantity": whole(line, "quantity", 1), "metadata": obj{}}
	if rec["usage_type"] == "metered" {
		if text(line, "quantity") != "" {
			return nil, wrong("items[0][quantity]", "You cannot set a quantity for a price that is metered")
		}
		delete(item, "quantity")
	}
	return item, metadata(item, sub(line, "metadata"))
}

// begin lets a period begin.
func (s *Stripe) begin(o obj, at int64) {
	rec := o["items"].(obj)["data"].([]obj)[0]["price"].(obj)["recurring"].(obj)
	n := int(rec["interval_count"].(int64))
	from := time.Unix(at, 0).UTC()
	end := map[string]time.Time{"day": from.AddDate(0, 0, n), "week": from.AddDate(0, 0, 7*n), "month": from.AddDate(0, n, 0), "year": from.AddDate(n, 0, 0)}[rec["interval"].(string)]
	o["current_period_start"], o["current_period_end"], o["billing_cycle_anchor"] = at, end.Unix(), at
}

func (s *Stripe) changeSubscription(c *call) (obj, *fail) {
	o, bad := s.alive(c.id())
	if bad != nil {
		return nil, bad
	}
	for _, line := range items(c.params, "items") {
		data := o["items"].(obj)["data"].([]obj)
		i := slices.IndexFunc(data, func(x obj) bool { return x["id"] == text(line, "id") })
		switch {
		case i < 0 && text(line, "id") != "":
			return nil, problem(http.StatusBadRequest, "resource_missing", "items", "No such subscription item: '"+text(line, "id")+"'")
		case i < 0:
			item, bad := s.newItem(line)
			if bad != nil {
				return nil, bad
			}
			item["subscription"] = o["id"]
			data = append(data, item)
		case text(line, "deleted") == "true":
			if len(data) == 1 {
				return nil, wrong("items", "A subscription must have at least one active plan.")
			}
			data = slices.Delete(data, i, i+1)
		default:
			if bad := s.changeItem(o, data[i], line, c.str("proration_behavior")); bad != nil {
				return nil, bad
			}
		}
		o["items"].(obj)["data"], o["items"].(obj)["total_count"] = data, int64(len(data))
	}
	if c.has("cancel_at_period_end") {
		s.cancelLater(o, c.str("cancel_at_period_end") == "true")
	}
	if c.has("cancel_at") {
		o["cancel_at"], o["canceled_at"] = nil, nil
		if at := c.num("cancel_at", 0); at > 0 {
			o["cancel_at"], o["canceled_at"] = at, s.now()
		}
	}
	if c.str("trial_end") == "now" && o["status"] == "trialing" {
		o["trial_end"] = s.now()
		s.settle()
	} else if at := c.num("trial_end", 0); at > s.now() {
		o["trial_end"], o["current_period_end"], o["status"] = at, at, "trialing"
	}
	if p, given := c.params["pause_collection"]; given { // it does not change the status
		o["pause_collection"] = p
		if p == "" {
			o["pause_collection"] = nil
		}
	}
	bad = fill(o, c.params, "description", "default_payment_method", "collection_method")
	if bad == nil {
		s.notify("customer.subscription.updated", o)
	}
	return o, bad
}

// changeItem changes a quantity or a price, and bills the difference for the rest of the period.
func (s *Stripe) changeItem(o, item obj, given obj, proration string) *fail {
	before, rest := s.lineOf(item), int64(0)
	if price := text(given, "price"); price != "" {
		fresh, bad := s.newItem(obj{"price": price})
		if bad != nil {
			return bad
		}
		item["price"] = fresh["price"]
	}
	if q := text(given, "quantity"); q != "" {
		if item["price"].(obj)["recurring"].(obj)["usage_type"] == "metered" {
			return wrong("quantity", "You cannot set a quantity for a price that is metered")
		}
		n := whole(given, "quantity", -1)
		if n < 0 {
			return problem(http.StatusBadRequest, "parameter_invalid_integer", "quantity", "Invalid non-negative integer")
		}
		item["quantity"] = n
	}
	if proration == "none" || o["status"] != "active" {
		return nil
	}
	if begin, end := o["current_period_start"].(int64), o["current_period_end"].(int64); end > begin {
		rest = (s.lineOf(item) - before) * (end - s.now()) / (end - begin)
	}
	if rest != 0 {
		s.make("invoiceitem", "ii", obj{"customer": o["customer"], "subscription": o["id"], "amount": rest, "currency": o["currency"], "description": "Change within the period", "invoice": nil, "date": s.now(), "metadata": obj{}, "proration": true})
		if proration == "always_invoice" {
			s.bill(o, "subscription_update", s.now(), s.now())
		}
	}
	return nil
}

// lineOf is what a period of an item costs in advance.
func (s *Stripe) lineOf(item obj) int64 {
	q, licensed := item["quantity"].(int64)
	if !licensed {
		return 0
	}
	return priceOf(item["price"].(obj), q)
}

func (s *Stripe) cancelLater(o obj, yes bool) {
	o["cancel_at_period_end"], o["cancel_at"], o["canceled_at"] = yes, nil, nil
	if yes {
		o["cancel_at"], o["canceled_at"] = o["current_period_end"], s.now()
	}
}

func (s *Stripe) cancel(o obj, at int64) {
	if o["status"] == "canceled" {
		return
	}
	o["status"], o["ended_at"] = "canceled", at
	if o["canceled_at"] == nil {
		o["canceled_at"] = at
	}
	s.notifyAt("customer.subscription.deleted", o, at)
}

// turn is what happens to a subscription at a time: false when nothing is due by then.
func (s *Stripe) turn(o obj, now int64) bool {
	status := o["status"]
	if at, ok := o["cancel_at"].(int64); ok && at <= now && status != "canceled" && status != "incomplete_expired" {
		s.bill(o, "subscription_cycle", at, at) // what was used of the last period is billed
		s.cancel(o, at)
		return true
	}
	switch end, _ := o["current_period_end"].(int64); {
	case status == "trialing":
		at := o["trial_end"].(int64)
		if warn := at - 3*day; o["#warned"] == nil && warn <= now && warn > o["trial_start"].(int64) {
			o["#warned"] = true
			s.notifyAt("customer.subscription.trial_will_end", o, warn)
			return true
		}
		if at > now {
			return false
		}
		behaviour := o["trial_settings"].(obj)["end_behavior"].(obj)["missing_payment_method"]
		switch {
		case s.cards[o["customer"].(string)] != NoCard || behaviour == "create_invoice":
			from := o["current_period_start"].(int64)
			o["status"] = "active"
			s.begin(o, at)
			s.notifyAt("customer.subscription.updated", o, at)
			s.billPeriod(o, "subscription_cycle", at, from, at)
		case behaviour == "pause":
			o["status"] = "paused"
			s.notifyAt("customer.subscription.paused", o, at)
		default:
			s.cancel(o, at)
		}
		return true
	case status == "incomplete" && o["created"].(int64)+23*3600 <= now:
		o["status"] = "incomplete_expired"
		s.notifyAt("customer.subscription.updated", o, o["created"].(int64)+23*3600)
		return true
	case (status == "active" || status == "past_due" || status == "unpaid") && end <= now:
		from := o["current_period_start"].(int64)
		s.begin(o, end)
		s.notifyAt("customer.subscription.updated", o, end)
		s.billPeriod(o, "subscription_cycle", end, from, end)
		return true
	}
	return false
}

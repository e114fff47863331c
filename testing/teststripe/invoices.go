package teststripe

import (
	"fmt"
	"net/http"
	"strings"
)

func (s *Stripe) invoiceRoutes() {
	const paging = " limit# starting_after ending_before created.gte# created.gt# created.lte# created.lt#"
	s.getter("invoices", "invoice")
	s.route("GET /v1/invoices", "customer subscription status collection_method"+paging, func(c *call) (obj, *fail) {
		return s.list(c, "invoice", func(o obj) bool {
			return (!c.has("customer") || o["customer"] == c.str("customer")) && (!c.has("subscription") || o["subscription"] == c.str("subscription")) && (!c.has("status") || o["status"] == c.str("status"))
		})
	})
	s.route("GET /v1/invoices/upcoming", "customer subscription", func(c *call) (obj, *fail) {
		for _, o := range s.of("subscription", c.str("customer")) {
			if o["status"] == "active" || o["status"] == "trialing" || o["status"] == "past_due" {
				inv := s.draft(o, "upcoming", o["current_period_start"].(int64), s.now(), true)
				delete(inv, "id")
				return inv, nil
			}
		}
		return nil, problem(http.StatusNotFound, "invoice_upcoming_none", "", "No upcoming invoices for customer: "+c.str("customer"))
	})
	s.route("POST /v1/invoices/{id}/finalize", "auto_advance?", func(c *call) (obj, *fail) {
		o, bad := s.get("invoice", c.id())
		if bad == nil && o["status"] != "draft" {
			bad = problem(http.StatusBadRequest, "invoice_not_editable", "", "This invoice is already finalized")
		}
		if bad == nil {
			s.finalize(o, s.now())
		}
		return o, bad
	})
	s.route("POST /v1/invoices/{id}/pay", "payment_method paid_out_of_band? off_session?", func(c *call) (obj, *fail) {
		o, bad := s.get("invoice", c.id())
		switch {
		case bad != nil:
			return nil, bad
		case o["status"] == "paid":
			return nil, problem(http.StatusBadRequest, "invoice_already_paid", "", "Invoice is already paid")
		case o["status"] == "draft":
			s.finalize(o, s.now())
		default:
			s.pay(o, s.now())
		}
		if o["status"] != "paid" {
			return nil, &fail{status: http.StatusPaymentRequired, kind: "card_error", code: "card_declined", declineCode: "generic_decline", message: "Your card was declined."}
		}
		return o, nil
	})
	s.route("POST /v1/invoiceitems", "customer! amount# currency! description invoice subscription metadata.** period.start# period.end# quantity# unit_amount# unit_amount_decimal price", func(c *call) (obj, *fail) {
		if _, bad := s.customer(c.str("customer")); bad != nil {
			return nil, bad
		}
		o := obj{"customer": c.str("customer"), "amount": c.num("amount", 0), "currency": c.str("currency"), "invoice": nil, "subscription": nil, "date": s.now(), "proration": false, "description": nil}
		if c.str("subscription") != "" {
			o["subscription"] = c.str("subscription")
		}
		if bad := fill(o, c.params, "description"); bad != nil {
			return nil, bad
		}
		return s.make("invoiceitem", "ii", o), nil
	})
	s.getter("invoiceitems", "invoiceitem")
	s.getter("charges", "charge")
	s.getter("disputes", "dispute")
	s.getter("radar/early_fraud_warnings", "radar.early_fraud_warning")
	s.route("GET /v1/charges", "customer payment_intent"+paging, func(c *call) (obj, *fail) {
		return s.list(c, "charge", func(o obj) bool { return !c.has("customer") || o["customer"] == c.str("customer") })
	})
}

// bill makes the invoice of a period that has begun.
func (s *Stripe) bill(o obj, reason string, at, usedUntil int64) {
	s.billPeriod(o, reason, at, o["current_period_start"].(int64), usedUntil)
}

// billPeriod makes an invoice at a time: what was used in [from, until), and the next period in advance. What follows a period stays a
// draft for an hour, so that usage can still be reported.
func (s *Stripe) billPeriod(o obj, reason string, at, from, until int64) {
	ends := o["cancel_at"] != nil && o["cancel_at"].(int64) <= at
	inv := s.draft(o, reason, from, until, !ends && o["status"] != "trialing")
	for _, id := range s.table("invoiceitem").order {
		if item := s.table("invoiceitem").by[id]; item["customer"] == o["customer"] && item["invoice"] == nil {
			s.line(inv, item["amount"].(int64), fmt.Sprint(item["description"]), nil, nil, at, at)
			item["invoice"] = "#"
		}
	}
	if reason == "subscription_cycle" && ends && len(inv["lines"].(obj)["data"].([]obj)) == 0 {
		return
	}
	inv["created"] = at
	s.make("invoice", "in", inv)
	for _, item := range s.table("invoiceitem").by {
		if item["invoice"] == "#" {
			item["invoice"] = inv["id"]
		}
	}
	s.serial++
	inv["number"] = fmt.Sprintf("FAKE-%04d", s.serial)
	o["latest_invoice"] = inv["id"]
	s.notifyAt("invoice.created", inv, at)
	if reason != "subscription_cycle" {
		s.finalize(inv, at)
	}
}

// draft is an invoice that is not stored.
func (s *Stripe) draft(o obj, reason string, from, until int64, next bool) obj {
	inv := obj{"customer": o["customer"], "subscription": o["id"], "status": "draft", "currency": o["currency"], "billing_reason": reason, "period_start": from, "period_end": until, "number": nil, "auto_advance": true,
		"attempt_count": int64(0), "attempted": false, "next_payment_attempt": nil, "hosted_invoice_url": nil, "invoice_pdf": nil, "paid": false, "amount_paid": int64(0), "due_date": nil, "metadata": obj{}, "collection_method": "charge_automatically",
		"charge": nil, "payment_intent": nil, "status_transitions": obj{"finalized_at": nil, "paid_at": nil, "voided_at": nil, "marked_uncollectible_at": nil},
		"subscription_details": obj{"metadata": o["metadata"]}, "lines": obj{"object": "list", "has_more": false, "data": []obj{}}, "total": int64(0)}
	for _, item := range o["items"].(obj)["data"].([]obj) {
		price := item["price"].(obj)
		if quantity, licensed := item["quantity"].(int64); licensed {
			if next && reason != "subscription_update" {
				s.line(inv, priceOf(price, quantity), "", price, quantity, o["current_period_start"].(int64), o["current_period_end"].(int64))
			}
			continue
		}
		if meter := s.table("billing.meter").by[fmt.Sprint(price["recurring"].(obj)["meter"])]; meter == nil || reason == "subscription_create" || reason == "subscription_update" {
			continue
		}
		s.line(inv, 0, "", price, int64(0), from, until) // counted when the draft is finalized
	}
	s.count(inv)
	return inv
}

func (s *Stripe) line(inv obj, amount int64, description string, price, quantity any, from, until int64) {
	lines := inv["lines"].(obj)
	s.serial++
	lines["data"] = append(lines["data"].([]obj), obj{"id": fmt.Sprintf("il_%06d", s.serial), "object": "line_item", "amount": amount, "currency": inv["currency"], "description": description, "price": price, "quantity": quantity,
		"period": obj{"start": from, "end": until}, "metadata": obj{}, "type": map[bool]string{true: "invoiceitem", false: "subscription"}[price == nil]})
}

// count adds a draft up: the usage reported so far.
func (s *Stripe) count(inv obj) {
	total := int64(0)
	for _, l := range inv["lines"].(obj)["data"].([]obj) {
		if price, ok := l["price"].(obj); ok && price["recurring"].(obj)["usage_type"] == "metered" {
			p := l["period"].(obj)
			meter := s.table("billing.meter").by[price["recurring"].(obj)["meter"].(string)]
			sum, _ := s.used(meter, inv["customer"].(string), p["start"].(int64), p["end"].(int64), s.now())
			l["quantity"], l["amount"] = max(0, sum), priceOf(price, max(0, sum)) // less than nothing is billed as nothing
		}
		total += l["amount"].(int64)
	}
	inv["total"], inv["subtotal"] = total, total
	inv["amount_due"] = max(0, total)
	inv["amount_remaining"] = max(0, total) - inv["amount_paid"].(int64)
}

func (s *Stripe) finalize(inv obj, at int64) {
	s.count(inv)
	inv["status"], inv["status_transitions"].(obj)["finalized_at"] = "open", at
	inv["hosted_invoice_url"], inv["invoice_pdf"] = s.base+"/invoice/"+inv["id"].(string), s.base+"/invoice/"+inv["id"].(string)+"/pdf"
	s.notifyAt("invoice.finalized", inv, at)
	s.pay(inv, at)
}

// pay tries to take the money.
func (s *Stripe) pay(inv obj, at int64) {
	o := s.table("subscription").by[fmt.Sprint(inv["subscription"])]
	customer := inv["customer"].(string)
	due := inv["amount_due"].(int64)
	if due == 0 || s.cards[customer] == Good {
		inv["status"], inv["paid"], inv["amount_paid"], inv["amount_remaining"], inv["next_payment_attempt"] = "paid", true, due, int64(0), nil
		inv["status_transitions"].(obj)["paid_at"] = at
		if due > 0 {
			inv["attempted"], inv["attempt_count"] = true, inv["attempt_count"].(int64)+1
			charge := s.make("charge", "ch", obj{"amount": due, "currency": inv["currency"], "customer": customer, "invoice": inv["id"], "paid": true, "refunded": false, "disputed": false, "status": "succeeded", "created": at, "metadata": obj{}})
			inv["charge"] = charge["id"]
		}
		s.notifyAt("invoice.paid", inv, at)
		s.notifyAt("invoice.payment_succeeded", inv, at)
		if o != nil && (o["status"] == "incomplete" || o["status"] == "past_due" || o["status"] == "unpaid") && !s.owes(o) {
			o["status"] = "active"
			s.notifyAt("customer.subscription.updated", o, at)
		}
		return
	}
	inv["attempted"] = true
	tries := inv["attempt_count"].(int64) + 1
	inv["attempt_count"], inv["next_payment_attempt"] = tries, nil
	if wait := []int64{3, 5, 7}; tries <= int64(len(wait)) && (o == nil || o["status"] != "incomplete") {
		inv["next_payment_attempt"] = at + wait[tries-1]*day
	}
	s.notifyAt("invoice.payment_failed", inv, at)
	if o == nil || o["status"] == "incomplete" || o["status"] == "canceled" {
		return
	}
	was := o["status"]
	o["status"] = "past_due"
	if inv["next_payment_attempt"] == nil {
		switch s.opts.AfterRetries {
		case "", "canceled":
			s.cancel(o, at)
			return
		default:
			o["status"] = s.opts.AfterRetries
		}
	}
	if o["status"] != was {
		s.notifyAt("customer.subscription.updated", o, at)
	}
}

// owes says whether an invoice of a subscription is not paid.
func (s *Stripe) owes(o obj) bool {
	for _, inv := range s.table("invoice").by {
		if inv["subscription"] == o["id"] && inv["status"] == "open" {
			return true
		}
	}
	return false
}

// advanceInvoice does what is due of an invoice by now.
func (s *Stripe) advanceInvoice(inv obj, now int64) bool {
	if at := inv["created"].(int64) + 3600; inv["status"] == "draft" && at <= now {
		s.finalize(inv, at)
		return true
	}
	if at, ok := inv["next_payment_attempt"].(int64); ok && inv["status"] == "open" && at <= now {
		s.pay(inv, at)
		return true
	}
	return false
}

// settle does all that is due, until nothing is.
func (s *Stripe) settle() {
	now := s.now()
	for again := true; again; {
		again = false
		for _, id := range s.table("subscription").order {
			again = s.turn(s.table("subscription").by[id], now) || again
		}
		for _, id := range s.table("invoice").order {
			again = s.advanceInvoice(s.table("invoice").by[id], now) || again
		}
		for _, id := range s.table("checkout.session").order {
			if o := s.table("checkout.session").by[id]; o["status"] == "open" && o["expires_at"].(int64) <= now {
				o["status"], o["url"] = "expired", nil
				s.notifyAt("checkout.session.expired", o, o["expires_at"].(int64))
				again = true
			}
		}
	}
}

// charged is the last charge of a customer.
func (s *Stripe) charged(customer string) (obj, *fail) {
	all := s.of("charge", customer)
	if len(all) == 0 {
		return nil, wrong("customer", "the customer has not paid anything yet")
	}
	return all[len(all)-1], nil
}

// Dispute makes a customer's bank dispute their last payment. status is needs_response, or how it ended: won, lost.
func (s *Stripe) Dispute(customer, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	charge, bad := s.charged(customer)
	if bad != nil {
		return fmt.Errorf("%s", bad.message)
	}
	charge["disputed"] = true
	for _, d := range s.table("dispute").by {
		if d["charge"] == charge["id"] {
			d["status"] = status
			s.notify("charge.dispute.closed", d)
			return nil
		}
	}
	s.notify("charge.dispute.created", s.make("dispute", "dp", obj{"amount": charge["amount"], "charge": charge["id"], "currency": charge["currency"], "reason": "fraudulent", "status": status, "metadata": obj{}}))
	return nil
}

// WarnOfFraud makes a card network warn of a customer's last payment.
func (s *Stripe) WarnOfFraud(customer string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	charge, bad := s.charged(customer)
	if bad != nil {
		return fmt.Errorf("%s", bad.message)
	}
	s.notify("radar.early_fraud_warning.created", s.make("radar.early_fraud_warning", "issfr", obj{"actionable": true, "charge": charge["id"], "fraud_type": "made_with_stolen_card"}))
	return nil
}

// prefixes are the kinds of objects by how their ids begin.
var prefixes = map[string]string{"cus": "customer", "sub": "subscription", "in": "invoice", "price": "price", "prod": "product", "ch": "charge", "mtr": "billing.meter", "cs": "checkout.session"}

// expand puts the object of an id in its place.
func (s *Stripe) expand(at any, way []string) {
	switch v := at.(type) {
	case map[string]any:
		if id, ok := v[way[0]].(string); ok {
			head, _, _ := strings.Cut(id, "_")
			if o := s.table(prefixes[head]).by[id]; o != nil {
				v[way[0]] = plain(o)
			}
		}
		if way[0] == "line_items" && v["object"] == "checkout.session" {
			v["line_items"] = plain(s.table("#lines").by[v["id"].(string)])
		}
		if len(way) > 1 {
			s.expand(v[way[0]], way[1:])
		}
	case []any:
		for _, o := range v {
			s.expand(o, way)
		}
	}
}

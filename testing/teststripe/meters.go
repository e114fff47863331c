package teststripe

import (
	"cmp"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// MeterEvent is reported usage. Value is a whole number, and may be negative.
type MeterEvent struct {
	Name       string `json:"event_name"`
	Identifier string `json:"identifier"`
	Customer   string `json:"customer"`
	Value      int64  `json:"value"`
	Timestamp  int64  `json:"timestamp"` // when it was used, s
	Created    int64  `json:"created"`   // when it was reported, s
	Cancelled  bool   `json:"cancelled"`
	Dropped    string `json:"dropped"` // why it is not counted, which the response does not say: meter_event_customer_not_found, no_meter
}

// MeterEvents returns all reported events, dropped and cancelled ones included.
func (s *Stripe) MeterEvents() []MeterEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.metered)
}

// DropMeterEvents loses reported usage on Stripe's side: the report succeeds, but no summary counts it. It returns how many were lost.
func (s *Stripe) DropMeterEvents(keep func(e MeterEvent) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i, e := range s.metered {
		if e.Dropped == "" && !keep(e) {
			s.metered[i].Dropped = "lost"
			n++
		}
	}
	return n
}

// AddMeterEvent is usage somebody else told.
func (s *Stripe) AddMeterEvent(e MeterEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Created = s.now()
	s.metered = append(s.metered, e)
}

func (s *Stripe) meterRoutes() {
	const paging = " limit# starting_after ending_before"
	s.route("POST /v1/billing/meters", "display_name! event_name! default_aggregation.formula! customer_mapping.type customer_mapping.event_payload_key value_settings.event_payload_key event_time_window", func(c *call) (obj, *fail) {
		for _, m := range s.table("billing.meter").by {
			if m["event_name"] == c.str("event_name") && m["status"] == "active" {
				return nil, wrong("event_name", "An active meter already uses the event name "+c.str("event_name"))
			}
		}
		formula := text(sub(c.params, "default_aggregation"), "formula")
		if formula != "sum" && formula != "count" {
			return nil, wrong("default_aggregation[formula]", "Invalid default_aggregation[formula]: must be one of count or sum")
		}
		mapping, values := sub(c.params, "customer_mapping"), sub(c.params, "value_settings")
		return s.make("billing.meter", "mtr", obj{"display_name": c.str("display_name"), "event_name": c.str("event_name"), "status": "active", "event_time_window": nil,
			"default_aggregation": obj{"formula": formula}, "customer_mapping": obj{"type": "by_id", "event_payload_key": cmp.Or(text(mapping, "event_payload_key"), "stripe_customer_id")},
			"value_settings": obj{"event_payload_key": cmp.Or(text(values, "event_payload_key"), "value")}, "updated": s.now(), "status_transitions": obj{"deactivated_at": nil}}), nil
	})
	s.route("POST /v1/billing/meters/{id}", "display_name", func(c *call) (obj, *fail) {
		o, bad := s.get("billing.meter", c.id())
		if bad == nil && c.str("display_name") != "" {
			o["display_name"] = c.str("display_name")
		}
		return o, bad
	})
	for _, way := range []string{"deactivate", "reactivate"} {
		s.route("POST /v1/billing/meters/{id}/"+way, "", func(c *call) (obj, *fail) {
			o, bad := s.get("billing.meter", c.id())
			if bad == nil {
				o["status"] = map[string]string{"deactivate": "inactive", "reactivate": "active"}[way]
			}
			return o, bad
		})
	}
	s.getter("billing/meters", "billing.meter")
	s.route("GET /v1/billing/meters", "status"+paging, func(c *call) (obj, *fail) {
		return s.list(c, "billing.meter", func(o obj) bool { return !c.has("status") || o["status"] == c.str("status") })
	})
	s.route("POST /v1/billing/meter_events", "event_name! payload.**! identifier timestamp#", s.notifyUsage)
	s.route("POST /v1/billing/meter_event_adjustments", "event_name! type! cancel.identifier", s.cancelUsage)
	s.route("GET /v1/billing/meters/{id}/event_summaries", "customer! start_time#! end_time#! value_grouping_window"+paging, s.summaries)
}

// meterTurn holds to Stripe's rule of one call at a time for a customer and meter. What it returns ends the turn.
func (s *Stripe) meterTurn(c *call) (func(), *fail) {
	if c.r.URL.Path != "/v1/billing/meter_events" || c.r.Method != http.MethodPost {
		return func() {}, nil
	}
	who := c.str("event_name") + " " + text(sub(c.params, "payload"), "stripe_customer_id")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meterBusy[who] > 0 {
		return nil, problem(http.StatusTooManyRequests, "lock_timeout", "", "This object cannot be accessed right now because another API request or Stripe process is currently accessing it.")
	}
	s.meterBusy[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.meterBusy[who]--
	}, nil
}

// meterOf is the active meter of an event name.
func (s *Stripe) meterOf(event string) obj {
	for _, m := range s.table("billing.meter").by {
		if m["event_name"] == event && m["status"] == "active" {
			return m
		}
	}
	return nil
}

const (
	meterPast    = 35 * 24 * 3600
	meterFuture  = 5 * 60
	meterNoTwice = 24 * 3600 // how long an identifier is remembered at least, and how long an event can be cancelled
)

func (s *Stripe) notifyUsage(c *call) (obj, *fail) {
	now := s.now()
	e := MeterEvent{Name: c.str("event_name"), Identifier: c.str("identifier"), Timestamp: c.num("timestamp", now), Created: now}
	meter := s.meterOf(e.Name)
	if meter == nil {
		return nil, problem(http.StatusBadRequest, "", "event_name", "No active meter found for event name "+e.Name+".")
	}
	payload := sub(c.params, "payload")
	e.Customer = text(payload, meter["customer_mapping"].(obj)["event_payload_key"].(string))
	if e.Customer == "" {
		return nil, problem(http.StatusBadRequest, "", "payload", "The payload names no customer")
	}
	value := text(payload, meter["value_settings"].(obj)["event_payload_key"].(string))
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return nil, problem(http.StatusBadRequest, "", "payload", "The value must be a whole number, not "+value)
	}
	e.Value = n
	if e.Identifier == "" {
		e.Identifier = random(16)
	}
	if len(e.Identifier) > 100 {
		return nil, wrong("identifier", "Identifiers have at most 100 characters")
	}
	switch {
	case e.Timestamp < now-meterPast:
		return nil, problem(http.StatusBadRequest, "timestamp_too_far_in_past", "timestamp", "The timestamp must be within the past 35 days")
	case e.Timestamp > now+meterFuture:
		return nil, problem(http.StatusBadRequest, "timestamp_in_future", "timestamp", "The timestamp must be at most 5 minutes in the future")
	}
	for _, old := range s.metered {
		if old.Identifier == e.Identifier && now-old.Created <= meterNoTwice {
			return nil, problem(http.StatusBadRequest, "", "", "An event already exists with identifier "+e.Identifier+".") // it comes without a code
		}
	}
	if c := s.table("customer").by[e.Customer]; c == nil || c["deleted"] == true {
		e.Dropped = "meter_event_customer_not_found" // found later; this API version does not report it
	}
	s.metered = append(s.metered, e)
	return obj{"object": "billing.meter_event", "created": now, "event_name": e.Name, "identifier": e.Identifier, "livemode": s.live, "payload": payload, "timestamp": e.Timestamp}, nil
}

func (s *Stripe) cancelUsage(c *call) (obj, *fail) {
	id := text(sub(c.params, "cancel"), "identifier")
	for i, e := range s.metered {
		if e.Identifier == id && e.Name == c.str("event_name") && !e.Cancelled {
			if s.now()-e.Created > meterNoTwice {
				return nil, wrong("cancel[identifier]", "Events can be cancelled within 24 hours only")
			}
			s.metered[i].Cancelled = true
			return obj{"object": "billing.meter_event_adjustment", "event_name": e.Name, "livemode": s.live, "status": "complete", "type": "cancel", "cancel": obj{"identifier": id}}, nil
		}
	}
	return nil, wrong("cancel[identifier]", "No event has the identifier "+id)
}

// summaries answers sums by window, the newest first, without windows in which nothing was used.
func (s *Stripe) summaries(c *call) (obj, *fail) {
	meter, bad := s.get("billing.meter", c.id())
	if bad != nil {
		return nil, bad
	}
	if _, bad := s.customer(c.str("customer")); bad != nil {
		return nil, bad
	}
	from, to, step := c.num("start_time", 0), c.num("end_time", 0), int64(60)
	window := c.str("value_grouping_window")
	switch window {
	case "":
	case "hour":
		step = 3600
	case "day":
		step = 24 * 3600
	default:
		return nil, wrong("value_grouping_window", "Invalid value_grouping_window: must be one of day or hour")
	}
	if from%step != 0 || to%step != 0 || from >= to {
		return nil, wrong("start_time", "start_time and end_time must lie on the bounds of minutes, or of the windows that were asked for, and in order")
	}
	if window == "" {
		step = to - from
	}
	limit := int(c.num("limit", 10))
	if limit < 1 || limit > 100 {
		return nil, problem(http.StatusBadRequest, "parameter_invalid_integer", "limit", "limit must be between 1 and 100")
	}
	var data []any
	for at := to - step; at >= from; at -= step {
		if sum, n := s.used(meter, c.str("customer"), at, at+step, s.now()-int64(s.opts.MeterLag/time.Second)); n > 0 {
			data = append(data, obj{"id": "mtrusg_" + c.id() + "_" + strconv.FormatInt(at, 10) + "_" + strconv.FormatInt(step, 10), "object": "billing.meter_event_summary", "livemode": s.live, "meter": c.id(),
				"start_time": at, "end_time": at + step, "aggregated_value": sum})
		}
	}
	if after := c.str("starting_after"); after != "" {
		i := slices.IndexFunc(data, func(o any) bool { return o.(obj)["id"] == after })
		if i < 0 {
			return nil, missing("billing.meter_event_summary", after)
		}
		data = data[i+1:]
	}
	more := len(data) > limit
	data = append([]any{}, data[:min(len(data), limit)]...)
	return obj{"object": "list", "url": c.r.URL.Path, "has_more": more, "data": data}, nil
}

// used returns what a customer used of a meter in [from, to), as reported by then, and the number of events.
func (s *Stripe) used(meter obj, customer string, from, to, reportedBy int64) (sum int64, n int) {
	for _, e := range s.metered {
		if e.Name == meter["event_name"] && e.Customer == customer && !e.Cancelled && e.Dropped == "" && e.Timestamp >= from && e.Timestamp < to && e.Created <= reportedBy {
			n++
			if meter["default_aggregation"].(obj)["formula"] == "sum" {
				sum += e.Value
			} else {
				sum++
			}
		}
	}
	return sum, n
}

// priceOf is what a quantity costs by a price, in cents, rounded half away from zero as Stripe's lines are.
func priceOf(price obj, quantity int64) int64 {
	total := new(big.Rat)
	of := func(amount any, n int64) {
		decimal, _ := amount.(string)
		if r, ok := new(big.Rat).SetString(decimal); ok {
			total.Add(total, r.Mul(r, new(big.Rat).SetInt64(n)))
		}
	}
	if tiers, ok := price["tiers"].([]obj); ok {
		begin := int64(0)
		for _, t := range tiers {
			upTo, bound := t["up_to"].(int64)
			if !bound {
				upTo = max(quantity, begin)
			}
			part := min(quantity, upTo) - begin
			if price["tiers_mode"] != "graduated" { // volume: all of it costs what the tier says in which its end lies
				if quantity > upTo {
					continue
				}
				part = quantity
			}
			if part > 0 {
				of(t["unit_amount_decimal"], part)
				of(t["flat_amount_decimal"], 1)
			}
			if begin = upTo; quantity <= upTo {
				break
			}
		}
	} else {
		of(price["unit_amount_decimal"], quantity)
	}
	twice := total.Mul(total, big.NewRat(2, 1))
	twice.Add(twice, big.NewRat(1, 1))
	q := new(big.Int).Div(twice.Num(), new(big.Int).Mul(twice.Denom(), big.NewInt(2))) // floor(x + 1/2)
	return q.Int64()
}

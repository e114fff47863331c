package tokens

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Price is what a model costs from EffectiveFrom on, in nano-USD for a million tokens. Where a price is nil, such
// tokens cost what the others do: reads and writes of a cache what input does, one-hour writes what other writes do.
//
// Model is a name, or the beginning of names followed by *. A date at the end of a name that was asked for does not count
// (claude-opus-4-5-20251101, gpt-5.5-2026-04-23). Behind it may stand @ and how the request was served (claude-opus-4-8@fast), and >
// and a number: it holds for prompts of more tokens than that, cached ones included (gpt-5.5>272000).
type Price struct {
	ID                 string
	Model              string
	InputNano          int64
	OutputNano         int64
	CacheReadNano      *int64
	CacheWriteNano     *int64
	CacheWriteHourNano *int64
	EffectiveFrom      int64  // ms UTC
	CreatedBy          string // "" = it came with the program
	CreatedAt          int64
}

// mostPrice bounds a price: $100,000 a million tokens, in nano-USD. The dearest model is far below; things paid by use are near.
const mostPrice = 100_000 * 1_000_000_000

// MostTokens bounds what is believed of one answer: a thousand times the largest context there is.
const MostTokens = 1_000_000_000

// pricesFor is how long a reading of the table is believed. Another replica's new row counts after that.
const pricesFor = 5 * time.Second

var modelName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._:/\[\]-]{0,120})(\*?)(?:@([a-z0-9_+-]{1,40}))?(?:>([1-9][0-9]{0,8}))?$`)

// dated is a date at the end of a model's name.
var dated = regexp.MustCompile(`-(20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2})$`)

// what a price's name says.
type what struct {
	name    string
	prefix  bool
	variant string
	above   int64
}

func parse(model string) (what, bool) {
	m := modelName.FindStringSubmatch(model)
	if m == nil {
		return what{}, false
	}
	above, _ := strconv.ParseInt("0"+m[4], 10, 64)
	return what{name: m[1], prefix: m[2] != "", variant: m[3], above: above}, true
}

// fits says how well a price's name fits a model: 0 = not at all; else the larger the better.
func (w what) fits(model string) int {
	switch {
	case w.prefix && strings.HasPrefix(model, w.name):
		return 1 + len(w.name)
	case w.prefix:
		return 0
	case w.name == model:
		return 1 << 20
	case w.name == dated.ReplaceAllString(model, ""):
		return 1 << 19
	}
	return 0
}

// Matches reports whether a pattern, a name or the beginning of names followed by *, fits a model's name, dated or not, in whatever letters:
// some providers take any. "*" fits all.
func Matches(pattern, model string) (how int) {
	if pattern == "*" {
		return 1
	}
	w, ok := parse(strings.ToLower(pattern))
	if !ok || w.variant != "" || w.above != 0 {
		return 0
	}
	return w.fits(strings.ToLower(model))
}

// Find returns the price of a model at a time for a prompt of so many tokens. The best fitting name wins; of one name an operator's row
// before one that came with the program; then the row for the longest prompts; then the latest.
func Find(all []Price, model, variant string, prompt, at int64) (Price, bool) {
	var best Price
	var rank [4]int64
	found := false
	for _, p := range all {
		w, ok := parse(p.Model)
		if !ok || p.EffectiveFrom > at || w.variant != variant || w.above > 0 && prompt <= w.above {
			continue
		}
		how := w.fits(model)
		if how == 0 {
			continue
		}
		operators := int64(0)
		if p.CreatedBy != "" {
			operators = 1
		}
		r := [4]int64{int64(how), operators, w.above, p.EffectiveFrom}
		if !found || after(r, rank) {
			best, rank, found = p, r, true
		}
	}
	return best, found
}

func after(a, b [4]int64) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return false
}

// Cost is what tokens cost at a price, in nano-USD, rounded once, half to even; nil when a count it needs is not known.
func (p Price) Cost(t Tokens) *int64 {
	if t.Input == nil || t.Output == nil {
		return nil
	}
	write := orElse(p.CacheWriteNano, p.InputNano)
	return total([][2]int64{{*t.Input, p.InputNano}, {*t.Output, p.OutputNano}, {or0(t.CacheRead), orElse(p.CacheReadNano, p.InputNano)},
		{or0(t.CacheWrite), write}, {or0(t.CacheWriteHour), orElse(p.CacheWriteHourNano, write)}})
}

func orElse(n *int64, otherwise int64) int64 {
	if n == nil {
		return otherwise
	}
	return *n
}

// total is the sum of counts times prices for a million, rounded half to even; nil when a count cannot be believed.
func total(parts [][2]int64) *int64 {
	var hi, lo uint64
	for _, p := range parts {
		if p[0] < 0 || p[0] > MostTokens || p[1] < 0 || p[1] > mostPrice {
			return nil
		}
		h, l := bits.Mul64(uint64(p[0]), uint64(p[1]))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	const million = 1_000_000
	if hi >= million {
		return nil
	}
	q, r := bits.Div64(hi, lo, million)
	if 2*r > million || 2*r == million && q%2 == 1 {
		q++
	}
	if q > 1<<62 {
		return nil
	}
	return new(int64(q))
}

// price computes what a request cost. A request that used nothing costs nothing with any model.
func (m *Meter) price(ctx context.Context, r *Request) error {
	if r.Subscription {
		r.PriceID = Included
		return nil
	}
	if r.Input != nil && r.Output != nil && *r.Output == 0 && len(r.Uses) == 0 {
		if n, _ := r.Prompt(); n == 0 {
			r.CostNano = new(int64)
			return nil
		}
	}
	if r.Unpriced {
		return nil
	}
	all, err := m.table(ctx)
	if err != nil {
		return err
	}
	prompt, _ := r.Prompt()
	p, ok := Find(all, r.Model, r.Variant, prompt, r.At)
	if !ok && r.Asked != "" {
		p, ok = Find(all, r.Asked, r.Variant, prompt, r.At)
	}
	if !ok {
		return nil
	}
	r.PriceID = p.ID
	cost := p.Cost(r.Tokens)
	for _, b := range r.Additional {
		c := r.additional(all, b)
		if c == nil || cost == nil {
			return nil
		}
		*cost += *c
	}
	for name, n := range r.Uses {
		base, variant, _ := strings.Cut(name, "@")
		use, ok := Find(all, base, variant, 0, r.At)
		if !ok || cost == nil {
			return nil
		}
		c := total([][2]int64{{n, use.InputNano}})
		if c == nil {
			return nil
		}
		*cost += *c
	}
	r.CostNano = cost
	return nil
}

// additional returns the cost of what was used besides tokens; nil when it is unknown.
func (r *Request) additional(all []Price, b Additional) *int64 {
	prompt, _ := b.Prompt()
	models := []string{b.Model}
	if b.Model == "" {
		models = []string{r.Model, r.Asked}
	}
	for _, model := range models {
		if p, ok := Find(all, model, r.Variant, prompt, r.At); ok {
			return p.Cost(b.Tokens)
		}
	}
	return nil
}

// mostVariant is how many times the usual price one is guessed to be that is not in the table: what is served first costs twice as much.
const mostVariant = 2

// estimate works out what a request may have cost whose cost is not known.
func (m *Meter) estimate(ctx context.Context, r *Request) error {
	if r.CostNano != nil || r.Subscription {
		return nil
	}
	t := r.Tokens
	if t.Input == nil {
		t.Input = r.Guess.Input
	}
	if t.Output == nil {
		t.Output = r.Guess.Output
	}
	if t.Input == nil || t.Output == nil {
		return nil
	}
	all, err := m.table(ctx)
	if err != nil {
		return err
	}
	prompt, _ := t.Prompt()
	for _, model := range []string{r.Model, r.Asked} {
		times := int64(1)
		p, ok := Find(all, model, r.Variant, prompt, r.At)
		if !ok && r.Variant != "" {
			times = mostVariant
			p, ok = Find(all, model, "", prompt, r.At)
		}
		if !ok {
			continue
		}
		parts := [][2]int64{}
		for name, n := range r.Uses {
			base, variant, _ := strings.Cut(name, "@")
			if use, ok := Find(all, base, variant, 0, r.At); ok {
				parts = append(parts, [2]int64{n, use.InputNano})
			}
		}
		if cost, uses := p.Cost(t), total(parts); cost != nil && uses != nil {
			r.EstimateNano = new(*cost*times + *uses)
			for _, b := range r.Additional {
				*r.EstimateNano += or0(r.additional(all, b))
			}
		}
		return nil
	}
	return nil
}

// Price is what a model costs at a time, for prompts of an ordinary length; false when the table does not say.
func (m *Meter) Price(ctx context.Context, model string, at int64) (Price, bool, error) {
	all, err := m.table(ctx)
	if err != nil {
		return Price{}, false, err
	}
	p, ok := Find(all, model, "", 0, at)
	return p, ok, nil
}

// table is the table of prices, not older than pricesFor.
func (m *Meter) table(ctx context.Context) ([]Price, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	if age := now.Sub(m.readAt); m.prices != nil && age >= 0 && age < pricesFor {
		return m.prices, nil
	}
	all, err := m.cfg.Store.ModelPrices(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the prices of models: %w", err)
	}
	m.prices, m.readAt = all, now
	return all, nil
}

// Prices returns every row there is, by name, the latest first.
func (m *Meter) Prices(ctx context.Context) ([]Price, error) { return m.cfg.Store.ModelPrices(ctx) }

// AddPrice adds a row. What was answered before EffectiveFrom keeps its cost, and so does what was answered already. Errors:
// invalid_model_price, model_price_exists.
func (m *Meter) AddPrice(ctx context.Context, by string, p Price) (Price, error) {
	if _, ok := parse(p.Model); !ok {
		return Price{}, badPrice("model", "invalid_model_price", "Enter the name of a model, such as claude-opus-4-8, or the beginning of names followed by *.")
	}
	for field, n := range map[string]*int64{"input_nano": &p.InputNano, "output_nano": &p.OutputNano, "cache_read_nano": p.CacheReadNano,
		"cache_write_nano": p.CacheWriteNano, "cache_write_hour_nano": p.CacheWriteHourNano} {
		if n != nil && (*n < 0 || *n > mostPrice) {
			return Price{}, badPrice(field, "invalid_model_price", "A price must be from 0 to 100000 USD for a million tokens.")
		}
	}
	now := m.cfg.Now().UnixMilli()
	p.EffectiveFrom = cmp.Or(p.EffectiveFrom, now)
	if p.EffectiveFrom < 0 || p.EffectiveFrom > now+10*365*24*3_600_000 {
		return Price{}, badPrice("effective_from", "invalid_model_price", "Enter when the price begins, in ms UTC, within the next ten years.")
	}
	p.ID, p.CreatedBy, p.CreatedAt = id.New("mpr"), by, now
	fresh, err := m.cfg.Store.AddModelPrice(ctx, p)
	if err != nil {
		return Price{}, fmt.Errorf("adding a model's price: %w", err)
	}
	if !fresh {
		return Price{}, fault.New(fault.Conflict, "model_price_exists", "There is a price of %s from that time on already, and prices never change. Choose another time.", p.Model)
	}
	m.mu.Lock()
	m.prices = nil
	m.mu.Unlock()
	return p, nil
}

func badPrice(field, code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, format, args...).With("field", field)
}

// Seed adds the rows that came with the program and are not there yet.
func (m *Meter) Seed(ctx context.Context) error {
	have, err := m.cfg.Store.ModelPrices(ctx)
	if err != nil {
		return fmt.Errorf("reading the prices of models: %w", err)
	}
	type key struct {
		model string
		from  int64
	}
	there := make(map[key]bool, len(have))
	for _, p := range have {
		there[key{p.Model, p.EffectiveFrom}] = true
	}
	for _, p := range builtin() {
		if there[key{p.Model, p.EffectiveFrom}] {
			continue
		}
		p.ID, p.CreatedAt = id.New("mpr"), m.cfg.Now().UnixMilli()
		if _, err := m.cfg.Store.AddModelPrice(ctx, p); err != nil {
			return fmt.Errorf("adding the price of %s: %w", p.Model, err)
		}
	}
	m.mu.Lock()
	m.prices = nil
	m.mu.Unlock()
	return nil
}

// ValidPattern reports whether a text is the name of a model, or the beginning of names followed by *.
func ValidPattern(pattern string) bool {
	w, ok := parse(pattern)
	return ok && w.variant == "" && w.above == 0
}

// InForce says by id which rows price requests of their very name now.
func InForce(all []Price, at int64) map[string]bool {
	best := map[string]Price{}
	for _, p := range all {
		if p.EffectiveFrom > at {
			continue
		}
		old, ok := best[p.Model]
		if own := p.CreatedBy != ""; !ok || own && old.CreatedBy == "" || own == (old.CreatedBy != "") && p.EffectiveFrom > old.EffectiveFrom {
			best[p.Model] = p
		}
	}
	out := make(map[string]bool, len(best))
	for _, p := range best {
		out[p.ID] = true
	}
	return out
}

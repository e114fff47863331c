package tokens

import (
	"strconv"
	"time"
)

// mill is a thousandth of a dollar.
const mill = 1_000_000

// listed is a model of the list that comes with the program: prices in mills (thousandths of a dollar) for a million tokens, 0 = not
// told apart. An operator's row of the same name counts before it.
type listed struct {
	model                                string
	from                                 string // day (UTC); "" = before anybody ran this program
	in, out, read, write, hour           int64
	long                                 int64 // prompts beyond so many tokens have the prices below; 0 = there is no such bound
	longIn, longOut, longRead, longWrite int64
	longHour                             int64
	fastIn, fastOut, fastRead, fastWrite int64 // of "fast"; 0 = there is none
	fastHour                             int64
	us                                   bool // a tenth more where it is to stay in the USA
	tiers                                bool // flex costs half, priority twice as much
}

// claude fills in what Anthropic's caching costs of the input's price: a quarter more to write for five minutes, twice as much for an
// hour. read is in mills.
func claude(model, from string, in, out, read int64) listed {
	return listed{model: model, from: from, in: in, out: out, read: read, write: in * 5 / 4, hour: in * 2}
}

func (l listed) fast(in, out, read int64) listed {
	l.fastIn, l.fastOut, l.fastRead, l.fastWrite, l.fastHour = in, out, read, in*5/4, in*2
	return l
}

func (l listed) beyond(prompt, in, out, read int64) listed {
	l.long, l.longIn, l.longOut, l.longRead = prompt, in, out, read
	if l.hour > 0 {
		l.longWrite, l.longHour = in*5/4, in*2
	} else if l.write > 0 {
		l.longWrite = in * 5 / 4
	}
	return l
}

func (l listed) inUSA() listed   { l.us = true; return l }
func (l listed) inTiers() listed { l.tiers = true; return l }

// gpt is a model of OpenAI's: cached input is cheaper, and writing to the cache costs nothing more but in those that say so.
func gpt(model, from string, in, out, read int64) listed {
	return listed{model: model, from: from, in: in, out: out, read: read}
}

// gpt6 is one of those that take a quarter more for what is written to the cache, and more for prompts beyond 272,000 tokens: twice for
// what goes in, half as much again for what comes out.
func gpt6(model, from string, in, out, read int64) listed {
	l := gpt(model, from, in, out, read)
	l.write = in * 5 / 4
	return l.beyond(272_000, 2*in, out*3/2, 2*read)
}

// list is what the providers ask in public, in USD for a million tokens, as their pages said in November 2026:
// platform.claude.com/docs/en/about-claude/pricing and developers.openai.com/api/docs/pricing.
func list() []listed {
	return []listed{
		claude("claude-opus-4", "", 15_000, 75_000, 1_500),
		claude("claude-opus-4-0", "", 15_000, 75_000, 1_500),
		claude("claude-opus-4-1", "", 15_000, 75_000, 1_500),
		claude("claude-opus-4-5", "", 5_000, 25_000, 500),
		claude("claude-opus-4-6", "", 5_000, 25_000, 500).fast(30_000, 150_000, 3_000).inUSA(),
		claude("claude-opus-4-7", "", 5_000, 25_000, 500).fast(30_000, 150_000, 3_000).inUSA(),
		claude("claude-opus-4-8", "", 5_000, 25_000, 500).fast(10_000, 50_000, 1_000).inUSA(),
		claude("claude-opus-5", "", 5_000, 25_000, 500).fast(10_000, 50_000, 1_000).inUSA(),
		claude("claude-opus-5-5", "", 4_000, 20_000, 200).fast(8_000, 40_000, 400).inUSA(),
		claude("claude-sonnet-4", "", 3_000, 15_000, 300).beyond(200_000, 6_000, 22_500, 600),
		claude("claude-sonnet-4-0", "", 3_000, 15_000, 300).beyond(200_000, 6_000, 22_500, 600),
		claude("claude-sonnet-4-5", "", 3_000, 15_000, 300).beyond(200_000, 6_000, 22_500, 600),
		claude("claude-sonnet-4-6", "", 3_000, 15_000, 300).inUSA(),
		claude("claude-sonnet-5", "", 2_000, 10_000, 200).inUSA(),
		claude("claude-sonnet-5-5", "", 2_000, 10_000, 200).inUSA(),
		claude("claude-haiku-3-5", "", 800, 4_000, 80),
		claude("claude-3-5-haiku", "", 800, 4_000, 80),
		claude("claude-haiku-4-5", "", 1_000, 5_000, 100),
		claude("claude-haiku-5-5", "", 100, 500, 10).beyond(100_000, 500, 2_500, 50).inUSA(),
		claude("claude-fable-5", "", 10_000, 50_000, 1_000).inUSA(),
		claude("claude-fable-5-1", "", 10_000, 50_000, 250).inUSA(),
		claude("claude-mythos-5", "", 10_000, 50_000, 1_000).inUSA(),
		claude("claude-mythos-5-1", "", 10_000, 50_000, 250).inUSA(),

		gpt("text-embedding-3-small", "", 20, 0, 0),
		gpt("text-embedding-3-large", "", 130, 0, 0),
		gpt("text-embedding-ada-002", "", 100, 0, 0),

		gpt("gpt-4.1", "", 2_000, 8_000, 500),
		gpt("gpt-4.1-mini", "", 400, 1_600, 100),
		gpt("gpt-4.1-nano", "", 100, 400, 25),
		gpt("gpt-4o", "", 2_500, 10_000, 1_250),
		gpt("gpt-4o-mini", "", 150, 600, 75),
		gpt("o3", "", 2_000, 8_000, 500),
		gpt("o3-mini", "", 1_100, 4_400, 550),
		gpt("o4-mini", "", 1_100, 4_400, 275),
		gpt("codex-mini-latest", "", 1_500, 6_000, 375),
		gpt("gpt-5", "", 1_250, 10_000, 125),
		gpt("gpt-5-chat-latest", "", 1_250, 10_000, 125),
		gpt("gpt-5-codex", "", 1_250, 10_000, 125),
		gpt("gpt-5-mini", "", 250, 2_000, 25),
		gpt("gpt-5-nano", "", 50, 400, 5),
		gpt("gpt-5-pro", "", 15_000, 120_000, 0),
		gpt("gpt-5.1", "", 1_250, 10_000, 125),
		gpt("gpt-5.1-chat-latest", "", 1_250, 10_000, 125),
		gpt("gpt-5.1-codex", "", 1_250, 10_000, 125),
		gpt("gpt-5.1-codex-max", "", 1_250, 10_000, 125),
		gpt("gpt-5.1-codex-mini", "", 250, 2_000, 25),
		gpt("gpt-5.2", "", 1_750, 14_000, 175),
		gpt("gpt-5.2-chat-latest", "", 1_750, 14_000, 175),
		gpt("gpt-5.2-codex", "", 1_750, 14_000, 175),
		gpt("gpt-5.2-pro", "", 21_000, 168_000, 0),
		gpt("gpt-5.3-chat-latest", "", 1_750, 14_000, 175),
		gpt("gpt-5.3-codex", "", 1_750, 14_000, 175),
		gpt("gpt-5.4", "", 2_500, 15_000, 250).beyond(272_000, 5_000, 22_500, 500),
		gpt("gpt-5.4-mini", "", 750, 4_500, 75),
		gpt("gpt-5.4-nano", "", 200, 1_250, 20),
		gpt("gpt-5.4-pro", "", 30_000, 180_000, 0).beyond(272_000, 60_000, 270_000, 0),
		gpt("gpt-5.5", "", 5_000, 30_000, 500).beyond(272_000, 10_000, 45_000, 1_000),
		gpt("gpt-5.5-chat-latest", "", 5_000, 30_000, 500),
		gpt("gpt-5.5-pro", "", 30_000, 180_000, 0).beyond(272_000, 60_000, 270_000, 0),
		gpt6("gpt-5.6-sol", "", 5_000, 30_000, 500),
		gpt6("gpt-5.6-sol", "2026-08-21", 4_000, 20_000, 400),
		gpt6("gpt-5.6-terra", "", 2_500, 15_000, 250),
		gpt6("gpt-5.6-terra", "2026-07-30", 2_000, 12_000, 200),
		gpt6("gpt-5.6-luna", "", 1_000, 6_000, 100),
		gpt6("gpt-5.6-luna", "2026-07-30", 200, 1_200, 20),
		gpt6("gpt-6-astra", "", 10_000, 50_000, 1_000),
		gpt6("gpt-6-sol", "", 2_000, 10_000, 200),
		gpt6("gpt-6-luna", "", 100, 500, 10),
		gpt6("gpt-6.1-sol", "", 2_000, 10_000, 100).inTiers(),
		gpt6("gpt-6.1-terra", "", 1_000, 5_000, 50).inTiers(),

		// Paid by use: the price of a million searches.
		{model: "web_search@anthropic", in: 10_000_000},
		{model: "web_search@openai", in: 10_000_000},
	}
}

// epoch is when prices begin whose first day does not matter: the first day of 2025.
var epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() //nolint:gochecknoglobals // a constant

// builtin are the rows of the list.
func builtin() []Price {
	var out []Price
	for _, l := range list() {
		from := epoch
		if day, err := time.Parse(time.DateOnly, l.from); err == nil {
			from = day.UnixMilli()
		}
		row := func(suffix string, in, outp, read, write, hour int64) Price {
			return Price{Model: l.model + suffix, InputNano: in * mill, OutputNano: outp * mill, CacheReadNano: maybe(read), CacheWriteNano: maybe(write),
				CacheWriteHourNano: maybe(hour), EffectiveFrom: from}
		}
		base := []Price{row("", l.in, l.out, l.read, l.write, l.hour)}
		long := ""
		if l.long > 0 {
			long = ">" + strconv.FormatInt(l.long, 10)
			base = append(base, row(long, l.longIn, l.longOut, l.longRead, l.longWrite, l.longHour))
		}
		out = append(out, base...)
		variant := func(name string, num, den int64) {
			for i, p := range base {
				p.Model = l.model + "@" + name
				if i > 0 {
					p.Model += long
				}
				out = append(out, p.times(num, den))
			}
		}
		if l.fastIn > 0 {
			out = append(out, row("@fast", l.fastIn, l.fastOut, l.fastRead, l.fastWrite, l.fastHour))
		}
		if l.us {
			variant("us", 11, 10)
			if l.fastIn > 0 {
				out = append(out, row("@fast+us", l.fastIn, l.fastOut, l.fastRead, l.fastWrite, l.fastHour).times(11, 10))
			}
		}
		if l.tiers {
			variant("flex", 1, 2)
			variant("priority", 2, 1)
		}
	}
	return out
}

// times is a price that is num/den of p.
func (p Price) times(num, den int64) Price {
	of := func(n *int64) *int64 {
		if n == nil {
			return nil
		}
		return new(*n * num / den)
	}
	p.InputNano, p.OutputNano = p.InputNano*num/den, p.OutputNano*num/den
	p.CacheReadNano, p.CacheWriteNano, p.CacheWriteHourNano = of(p.CacheReadNano), of(p.CacheWriteNano), of(p.CacheWriteHourNano)
	return p
}

func maybe(mills int64) *int64 {
	if mills == 0 {
		return nil
	}
	return new(mills * mill)
}

package usage

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// CSV writes the lines of a report. Amounts are in dollars with nine decimals, the full precision; text that a spreadsheet would take for
// a formula begins with an apostrophe (owasp.org/www-community/attacks/CSV_Injection).
func (r Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	err := out.Write([]string{string(r.Group), "name", "run_ms", "metered_ms", "vcpu_ms", "mib_ms", "cost_usd", "tokens_cost_usd", "tokens_unknown", "input_tokens", "output_tokens"})
	if err != nil {
		return fmt.Errorf("writing usage: %w", err)
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	for _, i := range r.Items {
		key := plain(i.Key)
		if r.Group == ByDay || r.Group == ByHour {
			key = i.Name // a time people and spreadsheets can read
		}
		if err := out.Write([]string{key, plain(i.Name), n(i.RunMs), n(i.MeteredMs), n(i.VCPUMs), n(i.MiBMs), Decimal(i.CostNano), Decimal(i.TokensCostNano),
			n(i.TokensUnknown), n(i.InputTokens), n(i.OutputTokens)}); err != nil {
			return fmt.Errorf("writing usage: %w", err)
		}
	}
	out.Flush()
	return out.Error()
}

// plain is text no spreadsheet calculates with.
func plain(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", []rune(s)[0]) {
		return "'" + s
	}
	return s
}

// Decimal writes nano-USD as dollars, exactly: "0.133200000".
func Decimal(nano int64) string {
	sign, abs := "", uint64(nano)
	if nano < 0 {
		sign, abs = "-", -abs
	}
	return fmt.Sprintf("%s%d.%09d", sign, abs/1e9, abs%1e9)
}

// FileName is what the file of a report is called.
func (r Report) FileName(of string) string {
	day := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02") }
	return fmt.Sprintf("parawork-usage-%s-%s-%s-by-%s.csv", of, day(r.From), day(r.To-1), r.Group)
}

package store

import (
	"errors"
	"fmt"
)

// Scanner is what a row is read from: the answer of QueryRow, or the row at which Rows stands. This and what is below are exported
// for the packages that hold the SQL of some features, such as toolstore.
type Scanner interface{ Scan(dest ...any) error }

// Each has fn read every row of a query, whose answer it takes as Query gives it, and closes the rows.
func Each(rows *Rows, err error, fn func(Scanner) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Collect returns what scan makes of every row of a query, never nil without an error.
func Collect[T any](rows *Rows, err error, scan func(Scanner) (T, error)) ([]T, error) {
	out := []T{}
	err = Each(rows, err, func(r Scanner) error {
		v, err := scan(r)
		out = append(out, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Column returns the values of a query with one column.
func Column[T any](rows *Rows, err error) ([]T, error) {
	return Collect(rows, err, func(r Scanner) (v T, err error) {
		err = r.Scan(&v)
		return v, err
	})
}

// Keyed returns what scan makes of every row of a query, by key. Of rows with the same key the last counts.
func Keyed[K comparable, V any](rows *Rows, err error, scan func(Scanner) (K, V, error)) (map[K]V, error) {
	out := map[K]V{}
	err = Each(rows, err, func(r Scanner) error {
		k, v, err := scan(r)
		out[k] = v
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Pairs returns the rows of a query with two columns: the second by the first.
func Pairs[K comparable, V any](rows *Rows, err error) (map[K]V, error) {
	return Keyed(rows, err, func(r Scanner) (k K, v V, err error) {
		err = r.Scan(&k, &v)
		return k, v, err
	})
}

// Optional says whether there is a row: that there is none is no error.
func Optional[T any](v T, err error) (T, bool, error) {
	if err != nil {
		var none T
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return none, false, err
	}
	return v, true, nil
}

// OrZero returns the zero value where there is no row.
func OrZero[T any](v T, err error) (T, error) {
	v, _, err = Optional(v, err)
	return v, err
}

// Wrap says of an error what was being done; nil stays nil.
func Wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

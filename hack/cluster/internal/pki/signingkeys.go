package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SigningKeys are those of ServiceAccount tokens in the directory of a control plane: service-account.key signs, and whatever
// service-account.pub holds is accepted. A rotation is Add, Use, Retire; who reads the files starts anew after each.
type SigningKeys struct{ Dir string }

const (
	current = "service-account"
	next    = "service-account-next"
)

// Add makes the next key, accepted beside the current one.
func (s SigningKeys) Add() error {
	if _, err := os.Stat(s.path(next + ".key")); err == nil {
		return errors.New("there is a next signing key already: use it first")
	}
	if err := WriteSigningKey(s.Dir, next); err != nil {
		return err
	}
	accepted, err := s.read(current+".pub", next+".pub")
	if err != nil {
		return err
	}
	return s.write(current+".pub", accepted)
}

// Use makes the next key the current one.
func (s SigningKeys) Use() error {
	if err := os.Rename(s.path(next+".key"), s.path(current+".key")); errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no next signing key: add one first")
	} else if err != nil {
		return fmt.Errorf("using the next signing key: %w", err)
	}
	return nil
}

// Retire leaves only the current key accepted.
func (s SigningKeys) Retire() error {
	if _, err := os.Stat(s.path(next + ".key")); err == nil {
		return errors.New("the next signing key is not in use yet: use it first")
	}
	accepted, err := s.read(next + ".pub")
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is one signing key only: add another first")
	}
	if err != nil {
		return err
	}
	if err := s.write(current+".pub", accepted); err != nil {
		return err
	}
	return os.Remove(s.path(next + ".pub"))
}

func (s SigningKeys) path(file string) string { return filepath.Join(s.Dir, file) }

func (s SigningKeys) read(files ...string) ([]byte, error) {
	var all bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(s.path(file))
		if err != nil {
			return nil, fmt.Errorf("reading a signing key: %w", err)
		}
		all.Write(text)
	}
	return all.Bytes(), nil
}

func (s SigningKeys) write(file string, content []byte) error {
	if err := os.WriteFile(s.path(file+".new"), content, 0o600); err != nil {
		return fmt.Errorf("writing a signing key: %w", err)
	}
	if err := os.Rename(s.path(file+".new"), s.path(file)); err != nil {
		return fmt.Errorf("writing a signing key: %w", err)
	}
	return nil
}

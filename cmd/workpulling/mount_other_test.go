//go:build !linux

package main

import "errors"

func mountMemory(string, int64) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }

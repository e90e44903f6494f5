package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// receive unpacks the regular files of a tar archive on standard input, so that documents can be brought into a pod whose
// image has no shell and no tar.
func receive(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("receive", flag.ContinueOnError)
	directory := flags.String("directory", "/documents", "directory to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	count, err := unpack(os.Stdin, *directory)
	if err != nil {
		return err
	}
	fmt.Printf("{\"received\":%d}\n", count)
	return nil
}

func unpack(archive io.Reader, directory string) (count int, err error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return 0, fmt.Errorf("making the directory: %w", err)
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return 0, fmt.Errorf("opening the directory: %w", err)
	}
	defer root.Close()
	for entries := tar.NewReader(archive); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, fmt.Errorf("reading the archive: %w", err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := unpackFile(root, header.Name, entries); err != nil {
			return count, err
		}
		count++
	}
}

func unpackFile(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	file, err := root.Create(name)
	if err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	if _, err := io.Copy(file, content); err != nil {
		return errors.Join(fmt.Errorf("unpacking %s: %w", name, err), file.Close())
	}
	return file.Close()
}

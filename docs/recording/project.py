"""Writes the made-up project of the recording into the current folder: an importer, its tests and its log."""

from pathlib import Path

IMPORTER = '''"""Imports orders in batches; every 17th leaves an audit row."""

import sqlite3


def connect(path):
    return sqlite3.connect(path, timeout=7.3)


def write_batch(path, number, orders):
    database = connect(path)
    database.executemany("INSERT INTO orders VALUES (?, ?)", orders)
    if number % 17 == 0:
        with connect(path) as audit:
            audit.execute("INSERT INTO audit VALUES (?, ?)", (number, len(orders)))
    database.commit()
'''

TESTS = '''import os
import tempfile
import unittest

from importer import connect, write_batch


class ImporterTest(unittest.TestCase):
    def setUp(self):
        self.path = os.path.join(tempfile.mkdtemp(), "orders.db")
        database = connect(self.path)
        database.execute("CREATE TABLE orders (id INTEGER, cents INTEGER)")
        database.execute("CREATE TABLE audit (batch INTEGER, orders INTEGER)")

    def rows(self, table):
        return connect(self.path).execute(f"SELECT * FROM {table}").fetchall()

    def test_a_batch_is_written(self):
        write_batch(self.path, 17, [(1, 500), (2, 900)])
        self.assertEqual(self.rows("orders"), [(1, 500), (2, 900)])

    def test_every_17th_batch_is_audited(self):
        write_batch(self.path, 17, [(1, 500), (2, 900)])
        self.assertEqual(self.rows("audit"), [(17, 2)])


if __name__ == "__main__":
    unittest.main()
'''


def clock(second):
    return f"{2 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def log():
    second = 0
    for batch in range(1, 31):
        for attempt in range(1, 301 if batch == 17 else 1):  # 300 times 7 s
            second += 7
            request = f"{(batch * 7919 + attempt * 104729) % 0xFFFFF:05x}"
            yield f"{clock(second)} ERROR batch=17 attempt={attempt} request={request} database is locked, rolled back"
        if batch == 17:
            yield f"{clock(second)} WARN  batch=17 gives up its audit row"
        for part in range(1, 9):
            second += part % 2
            yield f"{clock(second)} INFO  batch={batch} part={part}/8 wrote 250 orders, {1 + (batch + part) % 3} of them again"
    yield f"{clock(second)} INFO  30 batches, 60000 orders"


Path("importer.py").write_text(IMPORTER)
Path("test_importer.py").write_text(TESTS)
Path("import.log").write_text("".join(line + "\n" for line in log()))

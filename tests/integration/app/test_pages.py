"""Pages: the form, its answers, its errors; no inline scripts, nothing from elsewhere."""

import json
import re

import pytest
from fastapi.testclient import TestClient

HTML = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
QUERY = "/?model_name=llama-3.1-8b&budget_usd=20000"


def test_the_form_is_empty_at_first(client: TestClient) -> None:
    page = client.get("/", headers=HTML)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "Training settings that fit" in page.text
    assert 'role="alert"' not in page.text


def test_an_address_has_its_answer(client: TestClient) -> None:
    page = client.get(QUERY, headers=HTML)
    assert page.status_code == 200
    for part in ("Train llama-3.1-8b on", "8,030,261,248", "Settings, and why", "90 % interval"):
        assert part in page.text
    assert 'value="20000"' in page.text
    identity = re.search(r"/recommendations/([0-9a-f]+)", page.text)
    assert identity is not None
    kept = client.get(identity[0], headers=HTML)
    assert "Train llama-3.1-8b on" in kept.text
    answer = client.get(identity[0], headers={"accept": "application/json"}).json()
    assert answer["best"]["settings"]["instance_type"] in page.text


def test_blank_fields_leave_the_address(client: TestClient) -> None:
    response = client.get(
        "/?model_name=llama-3.1-8b&budget_usd=500&num_tokens=&region=", follow_redirects=False
    )
    assert response.status_code == 303
    assert response.headers["location"] == "/?model_name=llama-3.1-8b&budget_usd=500"


@pytest.mark.parametrize("way", ["pasted", "uploaded"])
def test_a_config_is_posted(client: TestClient, way: str) -> None:
    text = json.dumps(LLAMA)
    files = {"config_file": ("config.json", text if way == "uploaded" else "", "application/json")}
    data = {"num_tokens": "2B", "model_config": text if way == "pasted" else "", "budget_usd": ""}
    page = client.post("/", data=data, files=files, headers=HTML)
    assert page.status_code == 200
    assert "1,235,814,400" in page.text


def test_what_is_wrong_is_told_at_the_field_and_kept(client: TestClient) -> None:
    page = client.get("/?model_name=lama-3.1-8b&seq_len=4096", headers=HTML)
    assert page.status_code == 422
    assert 'id="model_name-error"' in page.text
    assert "did you mean llama-3.1-8b" in page.text
    assert 'value="lama-3.1-8b"' in page.text
    assert 'value="4096"' in page.text


def test_nothing_that_fits_is_told_with_what_would(client: TestClient) -> None:
    page = client.get("/?model_size_b=64&num_tokens=1T&budget_usd=1000", headers=HTML)
    assert page.status_code == 200
    assert "Nothing that is allowed" in page.text
    assert "What would fit" in page.text


def test_what_is_typed_is_escaped(client: TestClient) -> None:
    page = client.get("/", params={"model_name": "<script>alert(1)</script>"}, headers=HTML)
    assert "<script>" not in page.text
    assert "&lt;script&gt;" in page.text


@pytest.mark.parametrize("path", ["/", QUERY, "/results", "/nowhere", "/?model_name=x"])
def test_pages_keep_to_a_strict_policy(client: TestClient, path: str) -> None:
    page = client.get(path, headers=HTML)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<style|\sstyle=|\son\w+=", page.text)
    # A script has an address and no text of its own.
    assert all(
        re.fullmatch(r'<script src="[^"]+"( defer)?></script>', script)
        for script in re.findall(r"<script.*?</script>", page.text, re.DOTALL)
    )
    loaded = re.findall(r'<(?:link|img|iframe|script)[^>]+(?:href|src)="([^"]+)"', page.text)
    assert loaded
    assert all(address.startswith("/static/") for address in loaded)
    for address in loaded:
        assert client.get(address).status_code == 200


@pytest.mark.parametrize("path", ["/", "/?model_name=x&instances=p5.48xlarge", "/results"])
def test_every_input_has_a_label(client: TestClient, path: str) -> None:
    text = client.get(path, headers=HTML).text
    names = re.findall(r"<(?:input|select|textarea)[^>]*\sid=\"([^\"]+)\"", text)
    assert names
    for name in names:
        assert f'<label for="{name}">' in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for described in re.findall(r'aria-describedby="([^"]+)"', text):
        assert set(described.split()) <= set(ids)


def test_results_are_a_table_for_a_browser(client: TestClient) -> None:
    page = client.get("/results?gpu=H100&has_memory=true&limit=10", headers=HTML)
    assert page.status_code == 200
    assert page.text.count("<tr>") == 11
    assert 'rel="next"' in page.text
    assert client.get("/results?limit=1").headers["content-type"] == "application/json"


def test_errors_are_pages_for_a_browser(client: TestClient) -> None:
    page = client.get("/nowhere", headers=HTML)
    assert page.status_code == 404
    assert "<h1>There is nothing here</h1>" in page.text
